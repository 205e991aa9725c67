"""Makes answers that wrote nothing as durable as a write, where commits wait for a standby.

A transaction whose wait for the standby was cut short (a restart, an ended session) is visible on the primary
alone, and a fail-over takes it back. Whoever only reads waits for no standby. A commit of one's own does, and
what was visible before it is in the log before it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from effectlog.errors import StoreError, StoreTrouble
from effectlog.store import commands as c

if TYPE_CHECKING:
    from collections.abc import Mapping

    from effectlog.store.postgres.commits import Transactions, TransactionState
    from effectlog.store.postgres.connections import Connection, Pool, Querying


def tells(outcome: c.Outcome) -> bool:
    """Whether the outcome tells its caller what is stored, though it may have written nothing."""
    if isinstance(outcome, c.Refused):
        return outcome.reason is not c.Refusal.BUSY
    return isinstance(outcome, c.Created | c.EffectStored | c.RunMoved)


async def has_standby(connection: Querying, sql: Mapping[str, str]) -> bool:
    """Whether commits wait for a standby here, as far as the server knows now."""
    ((length,),) = await connection.fetch(sql["standby_names_length"])
    return bool(length)


class Confirmation:
    """Makes sure that what was read is where a write of now would be.

    Callers of one moment share a commit.
    """

    def __init__(self, commits: Transactions, pool: Pool, sql: Mapping[str, str], name: str) -> None:
        self._commits = commits
        self._pool = pool
        self._sql = sql
        self._name = name
        self._next: asyncio.Task[None] | None = None
        """A round that has not begun, so that it covers all that was read by now."""
        self._present: asyncio.Task[None] | None = None

    async def confirm(self) -> None:
        """Return once all that was visible at the call is confirmed.

        Raises StoreError, or the driver's error.
        """
        if self._next is None:
            self._next = asyncio.ensure_future(self._round(self._present))
            self._next.add_done_callback(_look_at)
        await asyncio.shield(self._next)

    async def _round(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait({before})
        self._present, self._next = self._next, None
        try:
            await self._commits.run(self._pool, self._commit_where_needed)
        except StoreError as error:
            if error.reason is not StoreTrouble.OUTCOME_UNKNOWN:
                raise
            raise StoreError(
                f"{self._name}: what was read may be on the primary alone, and no commit has been confirmed "
                f"by its "
                f"synchronous standby for a while; it is asked again",
                transient=True,
            ) from error

    async def _commit_where_needed(self, connection: Connection, state: TransactionState) -> None:
        state.wrote = await has_standby(connection, self._sql)


def _look_at(task: asyncio.Task[None]) -> None:
    """Whoever waited has its error; nobody may be left to."""
    if not task.cancelled():
        task.exception()
