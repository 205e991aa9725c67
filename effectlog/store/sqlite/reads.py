"""What is read of a SQLite store, outside of any write: whole runs, lists, what is due, who owns what."""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from effectlog.model import RunState
from effectlog.store import columns
from effectlog.store.protocol import Due, RunFilter, WorkerRow
from effectlog.store.sqlite import file as sqlite_file
from effectlog.store.sqlite.apply import SQL, as_json, load_runs, load_summaries
from effectlog.store.sqlite.file_guard import check_not_moved

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from effectlog.clock import Clock
    from effectlog.store.commands import Subscription
    from effectlog.store.rows import RunRow, StoredRun, StoredSummary
    from effectlog.store.sqlite.file_guard import FileGuard

T = TypeVar("T")
R = TypeVar("R")


class SqliteReads:
    """The reads of a store, over whatever runs a function on its reading connection."""

    _clock: Clock
    _path: str
    _guard: FileGuard | None

    @property
    def name(self) -> str:
        """The store's address."""
        return f"sqlite:///{self._path}"

    async def _read(self, function: Callable[..., T], *args: Any) -> T:
        raise NotImplementedError

    async def get(self, run_id: str) -> StoredRun | None:
        found = await self._read(_snapshot, load_runs, [run_id])
        return found[0] if found else None

    async def summary(self, run_id: str, *, result: bool = False) -> StoredSummary | None:
        found = await self._read(_snapshot, partial(_summary, result=result), run_id)
        return found[0] if found else None

    async def find(self, query: RunFilter) -> list[StoredSummary]:
        return await self._read(_snapshot, _find, query)

    async def states(self, run_ids: Sequence[str]) -> dict[str, RunState]:
        rows = await self._rows("read_states", as_json(run_ids))
        return {run_id: RunState(state) for run_id, state in rows}

    async def due(self, tasks: Sequence[str]) -> Due:
        check_not_moved(
            self._guard
        )  # A worker that has nothing to write would look into a file of its own for long.
        now = self._clock.wall()
        ((due, next_at),) = await self._rows("next_due", tasks=as_json(tasks), now=now)
        return Due(bool(due), None if next_at is None else next_at - now)

    async def owners(self) -> dict[str, str]:
        return dict(await self._rows("load_owners"))

    async def lapsed(self, dead_owners: frozenset[str]) -> list[RunRow]:
        clock = self._clock
        rows = await self._rows(
            "lapsed", clock=clock.identity, now=clock.monotonic(), dead_owners=as_json(dead_owners)
        )
        return list(columns.readable(columns.run_from, rows))

    async def next_lapse(self) -> float | None:
        now = self._clock.monotonic()
        ((ends,),) = await self._rows("next_lapse", clock=self._clock.identity, now=now)
        return None if ends is None else ends - now

    async def subscriptions(self, event: str) -> list[Subscription]:
        return [columns.subscription_from(row) for row in await self._rows("load_subscriptions", event)]

    async def workers(self) -> list[WorkerRow]:
        rows = await self._rows("load_workers")
        return [WorkerRow(*[*row[:-1], columns.names_from(row[-1])]) for row in rows]

    async def dead_letters(self, since: float) -> dict[str, int]:
        return {row[0]: row[1] for row in await self._rows("count_dead_letters", since)}

    async def health(self) -> dict[str, object]:
        states = dict(await self._rows("count_states"))
        pending = [
            {"task": task, "count": count, "due_at": due_at}
            for task, count, due_at in await self._rows("count_pending_tasks")
        ]
        ((doubt,),) = await self._rows("oldest_doubt")
        return {
            "store": self.name,
            "sqlite": sqlite3.sqlite_version,
            "states": states,
            "pending": pending,
            "oldest_doubt_at": doubt,
            "bytes": sqlite_file.size(self._path),
            "wal_bytes": sqlite_file.size(f"{self._path}-wal"),
            "clock": self._clock.identity,
        }

    async def mark(self) -> str | None:
        rows = await self._rows("load_mark")
        return str(rows[0][0]) if rows and rows[0][0] is not None else None

    async def _rows(self, statement: str, *values: Any, **named: Any) -> list[Any]:
        return await self._read(fetch, SQL[statement], named or values)


def fetch(
    connection: sqlite3.Connection, statement: str, parameters: tuple[Any, ...] | dict[str, Any]
) -> list[Any]:
    return connection.execute(statement, parameters).fetchall()


def _snapshot(
    connection: sqlite3.Connection, read: Callable[[sqlite3.Connection, T], list[R]], what: T
) -> list[R]:
    """Read a run's rows as of one moment, and let go of that moment at once."""
    connection.execute("BEGIN")
    try:
        return read(connection, what)
    finally:
        connection.execute("COMMIT")


def _summary(connection: sqlite3.Connection, run_id: str, *, result: bool) -> list[StoredSummary]:
    found = load_summaries(connection, [run_id])
    if found and result:
        found[0].result = connection.execute(SQL["load_result"], (run_id,)).fetchall()[0][0]
    return found


def _find(connection: sqlite3.Connection, query: RunFilter) -> list[StoredSummary]:
    wanted = {
        "state": query.state.value if query.state else None,
        "task": query.task,
        "before": query.before,
        "limit": query.limit,
    }
    rows = connection.execute(SQL["find_runs"], wanted)
    return load_summaries(connection, [row[0] for row in rows.fetchall()])
