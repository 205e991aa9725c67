"""What is read of a PostgreSQL store: whole runs, lists, what is due, who owns what, its health."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from effectlog.model import RunState
from effectlog.store import columns
from effectlog.store.assemble import summaries, whole_runs
from effectlog.store.postgres.batch import LEASE_CLOCK
from effectlog.store.protocol import Due, RunFilter, WorkerRow

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from effectlog.store import commands as c
    from effectlog.store.postgres.connections import Connection
    from effectlog.store.rows import RunRow, StoredRun, StoredSummary

T = TypeVar("T")

_LONG_READ = 60.0
"""Seconds that the facts for ``doctor`` may take: on a big store they are slow."""
_OPENED_AGAIN = 2.0
"""Seconds in which a session that broke is there again, unless something keeps it away."""


class PostgresReads:
    """The reads of a store, over whatever runs a function on a connection."""

    _sql: Mapping[str, str]
    _schema: str
    _pooled: bool

    @property
    def name(self) -> str:
        """The store's address as people may see it, without a password."""
        raise NotImplementedError

    async def _read(
        self,
        use: Callable[[Connection], Awaitable[T]],
        *,
        one_statement: bool = False,
        limit: float | None = None,
    ) -> T:
        """Read in one snapshot; tried again where the connection breaks."""
        raise NotImplementedError

    async def _rows(self, statement: str, *args: Any) -> list[Any]:
        return await self._read(
            lambda connection: connection.fetch(self._sql[statement], *args), one_statement=True
        )

    def _fetching(self, connection: Connection) -> Callable[..., Awaitable[list[Any]]]:
        async def fetch(statement: str, *args: Any) -> list[Any]:
            return await connection.fetch(self._sql[statement], *args)

        return fetch

    async def get(self, run_id: str) -> StoredRun | None:
        found = await self._read(lambda connection: load_whole(self._fetching(connection), [run_id]))
        return found[0] if found else None

    async def summary(self, run_id: str, *, result: bool = False) -> StoredSummary | None:
        async def use(connection: Connection) -> list[StoredSummary]:
            fetch = self._fetching(connection)
            found = await load_summaries(fetch, [run_id])
            if found and result:
                ((found[0].result,),) = await fetch("load_result", run_id)
            return found

        found = await self._read(use)
        return found[0] if found else None

    async def find(self, query: RunFilter) -> list[StoredSummary]:
        statement, filters = "find_runs", list[str]()
        if query.task is not None:
            statement, filters = f"{statement}_of_task", [query.task]
        if query.state is not None:
            statement, filters = f"{statement}_in_state", [*filters, query.state.value]

        async def use(connection: Connection) -> list[StoredSummary]:
            fetch = self._fetching(connection)
            rows = await fetch(statement, query.before, query.limit, *filters)
            return await load_summaries(fetch, [row[0] for row in rows])

        return await self._read(use)

    async def states(self, run_ids: Sequence[str]) -> dict[str, RunState]:
        return {row[0]: RunState(row[1]) for row in await self._rows("read_states", list(run_ids))}

    async def due(self, tasks: Sequence[str]) -> Due:
        ((due, next_in),) = await self._rows("next_due", list(tasks))
        return Due(bool(due), next_in)

    async def owners(self) -> dict[str, str]:
        return {row[0]: row[1] for row in await self._rows("load_owners")}

    async def lapsed(self, dead_owners: frozenset[str]) -> list[RunRow]:
        rows = await self._rows("lapsed", LEASE_CLOCK, sorted(dead_owners))
        return list(columns.readable(columns.run_from, map(tuple, rows)))

    async def next_lapse(self) -> float | None:
        ((seconds,),) = await self._rows("next_lapse", LEASE_CLOCK)
        return None if seconds is None else float(seconds)

    async def subscriptions(self, event: str) -> list[c.Subscription]:
        return [columns.subscription_from(row) for row in await self._rows("load_subscriptions", event)]

    async def workers(self) -> list[WorkerRow]:
        rows = await self._rows("load_workers")
        return [
            WorkerRow(row[0], row[1], row[2], row[3], row[4], row[5], row[6], tuple(row[7])) for row in rows
        ]

    async def mark(self) -> str | None:
        rows = await self._rows("load_mark")
        return str(rows[0][0]) if rows and rows[0][0] is not None else None

    async def dead_letters(self, since: float) -> dict[str, int]:
        return {row[0]: row[1] for row in await self._rows("count_dead_letters", since)}

    async def health(self) -> dict[str, object]:
        async def use(connection: Connection) -> dict[str, object]:
            return await _facts(connection, self._sql)

        about: dict[str, object] = {"store": self.name, "schema": self._schema, "pooler": self._pooled}
        return about | await self._read(use, limit=_LONG_READ)


async def _facts(connection: Connection, sql: Mapping[str, str]) -> dict[str, object]:
    """Counts, the oldest doubt, and whose transactions have been open so long that they may be in the way."""

    async def rows(statement: str) -> list[Any]:
        return await connection.fetch(sql[statement])

    pending = await rows("count_pending_tasks")
    waiting = await rows("open_transactions")
    return {
        "postgresql": await connection.fetchval("SHOW server_version"),
        "states": {row[0]: row[1] for row in await rows("count_states")},
        "pending": [{"task": row[0], "count": row[1], "due_at": row[2]} for row in pending],
        "oldest_doubt_at": await connection.fetchval(sql["oldest_doubt"]),
        "bytes": await connection.fetchval(sql["table_bytes"]),
        "open_transactions": [{"pid": row[0], "application": row[1], "seconds": row[2]} for row in waiting],
        "without_session": await _without_session(connection, sql),
        "clock": LEASE_CLOCK,
    }


async def _without_session(connection: Connection, sql: Mapping[str, str]) -> list[str]:
    """Workers that have no session, now and a moment later: they are gone, or start nothing."""

    async def look() -> set[str]:
        return {row[0] for row in await connection.fetch(sql["workers_without_session"])}

    seen = await look()
    if seen:
        await asyncio.sleep(_OPENED_AGAIN)
        seen &= await look()
    return sorted(seen)


async def load_whole(fetch: Callable[..., Awaitable[list[Any]]], run_ids: Sequence[str]) -> list[StoredRun]:
    """Read runs whole, in the order of the ids; unknown ids are left out."""
    if not run_ids:
        return []
    wanted = list(run_ids)
    parts = ("load_runs", "load_payloads", "load_attempts", "load_journal")
    return whole_runs(run_ids, *[map(tuple, await fetch(part, wanted)) for part in parts])


async def load_summaries(
    fetch: Callable[..., Awaitable[list[Any]]], run_ids: Sequence[str]
) -> list[StoredSummary]:
    """Read runs for a list, in the order of the ids; unknown ids are left out."""
    if not run_ids:
        return []
    wanted = list(run_ids)
    rows, unsettled = await fetch("load_summaries", wanted), await fetch("list_unsettled", wanted)
    return summaries(run_ids, map(tuple, rows), map(tuple, unsettled))
