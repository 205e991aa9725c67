"""Transactions of ours whose process was stopped in the middle: they keep their rows locked until it goes on.

Only transactions of effectlog under this role are ended, only where somebody is kept waiting, and only if
the server has been waiting for their process for a while. Ending one takes nothing from its owner but a
try: the transaction is rolled back, and done again on another connection. Sessions of anybody else are
reported, never ended.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from effectlog.store.postgres_connections import APPLICATION, EFFECT_APPLICATION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from effectlog.store.postgres_commits import Commits, Work
    from effectlog.store.postgres_connections import Connection, Lane

logger = logging.getLogger("effectlog")

KEEPS_A_RUN = 0.25
"""Seconds of silence in the middle of a transaction after which it may be ended for a run's sake."""
KEEPS_OTHERS = 1.0
"""The same where it is only in the way: of a claim, a turn or a key. Slow processes must not end each other."""
_NOT_READING = 10.0
"""Seconds on top where the server waits for its answer to be read, which takes a slow network longer."""


class Stalled:
    """Ends stalled transactions, at most as often as it makes sense to look."""

    def __init__(self, commits: Commits, sql: Mapping[str, str]) -> None:
        self._commits = commits
        self._sql = sql
        self._next_look = 0.0

    async def end(self, lane: Lane, seconds: float = KEEPS_A_RUN) -> bool:
        """End those that have been silent for so long; True if there was one.

        A look that fails (an engine without these views) finds nothing: the server's own time-outs remain.
        """

        async def work(connection: Connection, _: Work) -> int:
            names = (APPLICATION, EFFECT_APPLICATION)
            rows = await connection.fetch(self._sql["end_stalled"], seconds, _NOT_READING, *names)
            return sum(ended for (ended,) in rows)

        try:
            ended = await self._commits.read(lane, work, one_statement=True)
        except Exception as error:
            logger.debug("effectlog: no look for stalled transactions: %s", type(error).__name__)
            return False
        if ended:
            logger.info("effectlog: ended %d transaction(s) whose process stopped in the middle", ended)
        return ended > 0

    async def end_in_the_way(self, lane: Lane) -> bool:
        """The same for what is only in the way, not more often than it can make a difference."""
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + KEEPS_OTHERS / 4
        return await self.end(lane, KEEPS_OTHERS)
