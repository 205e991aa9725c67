"""Transactions of ours whose process was stopped in the middle: they keep their rows locked until it goes on.

Only transactions of effectlog under this role are ended, only where they keep somebody waiting, and only if
the server has been waiting for their process for a while. Ending one takes nothing from its owner but a
try: the transaction is rolled back, and done again on another connection. Sessions of anybody else are
reported, never ended.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from effectlog.store.postgres.connections import APPLICATION, EFFECT_APPLICATION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from effectlog.store.postgres.commits import Transactions, TransactionState
    from effectlog.store.postgres.connections import Connection, Pool

logger = logging.getLogger("effectlog")

KEEPS_A_RUN = 0.25
"""Seconds of silence in the middle of a transaction that holds a run's row after which it may be ended."""
KEEPS_OTHERS = 1.0
"""The same where it may be in the way, and nobody can tell. Slow processes must not end each other."""
_NOT_READING = 10.0
"""Seconds on top where the server waits for its answer to be read, which takes a slow network longer."""


class Stalled:
    """Ends stalled transactions, at most as often as it makes sense to look."""

    def __init__(self, commits: Transactions, sql: Mapping[str, str]) -> None:
        self._commits = commits
        self._sql = sql
        self._next_look = 0.0

    async def end_holders(self, pool: Pool, run_ids: Iterable[str]) -> bool:
        """End those that keep the rows of these runs; True if there was one."""
        return await self._end(pool, KEEPS_A_RUN, [APPLICATION, EFFECT_APPLICATION], sorted(run_ids))

    async def end_in_the_way(self, pool: Pool) -> bool:
        """End those that may be in the way of a claim, a turn or a key.

        Not more often than can make a difference.

        An effect's own transaction may wait for whatever it likes, and is let be.
        """
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + KEEPS_OTHERS / 4
        return await self._end(pool, KEEPS_OTHERS, [APPLICATION], None)

    async def waits_for_standby(self, pool: Pool) -> bool:
        """Whether a commit on this database waits for a synchronous standby, as far as this role can see."""

        async def work(connection: Connection, _: TransactionState) -> bool:
            ((count,),) = await connection.fetch(self._sql["count_standby_waits"])
            return bool(count)

        try:
            return await self._commits.read(pool, work, one_statement=True)
        except Exception as error:
            logger.debug("effectlog: no look for commits that wait: %s", type(error).__name__)
            return False

    async def _end(self, pool: Pool, seconds: float, names: list[str], runs: list[str] | None) -> bool:
        """A look that fails (an engine without these views) finds nothing: the server's time-outs remain."""

        async def work(connection: Connection, _: TransactionState) -> int:
            rows = await connection.fetch(self._sql["end_stalled"], names, seconds, _NOT_READING, runs)
            return sum(ended for (ended,) in rows)

        try:
            ended = await self._commits.read(pool, work, one_statement=True)
        except Exception as error:
            logger.debug("effectlog: no look for stalled transactions: %s", type(error).__name__)
            return False
        if ended:
            logger.info("effectlog: ended %d transaction(s) whose process stopped in the middle", ended)
        return ended > 0
