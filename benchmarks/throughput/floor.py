"""The store's own limit: the same rows through the same driver with the same durability, and nothing else.

One hop to the connection's thread for each transaction, as in effectlog's own store, so that this is the
least that a journal of *started* and *completed* records over aiosqlite can cost.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import aiosqlite

from benchmarks.throughput.figures import Rate

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

_SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE effects (run TEXT, key TEXT, operation TEXT, state TEXT, result TEXT, PRIMARY KEY (run, key)) WITHOUT ROWID;
"""
_OPERATION = "0d3c7db4-c864-506f-91ea-e49bc9ce83f2"

Row = tuple[str, str]


def _write(connection: sqlite3.Connection, started: list[Row], completed: list[Row]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    if started:
        rows = [(run, key, _OPERATION) for run, key in started]
        connection.executemany(
            "INSERT INTO effects (run, key, operation, state) VALUES (?, ?, ?, 'started')", rows
        )
    if completed:
        done = "UPDATE effects SET state = 'completed', result = '1' WHERE run = ? AND key = ?"
        connection.executemany(done, completed)
    connection.execute("COMMIT")


class _Journal:
    """Whatever waits goes into the next transaction."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self.commits = 0
        self._connection = connection
        self._started: list[Row] = []
        self._completed: list[Row] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._work = asyncio.Event()

    async def start(self, row: Row) -> None:
        """Durable on return."""
        waiter = asyncio.get_running_loop().create_future()
        self._started.append(row)
        self._waiters.append(waiter)
        self._work.set()
        await waiter

    def complete(self, row: Row) -> None:
        """Part of the next transaction."""
        self._completed.append(row)

    async def commit_forever(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            started, self._started = self._started, []
            completed, self._completed = self._completed, []
            waiters, self._waiters = self._waiters, []
            await _hop(self._connection, started, completed)
            self.commits += 1
            for waiter in waiters:
                waiter.set_result(None)


async def _hop(connection: aiosqlite.Connection, started: list[Row], completed: list[Row]) -> None:
    raw: Any = connection._conn  # noqa: SLF001 - a transaction in one hop, as effectlog's store does it
    await connection._execute(_write, raw, started, completed)  # type: ignore[no-untyped-call]  # noqa: SLF001 - as above


async def _opened(folder: Path) -> aiosqlite.Connection:
    path = folder / "floor.db"
    for leftover in folder.glob("floor.db*"):
        leftover.unlink()
    connection = await aiosqlite.connect(path, isolation_level=None)
    await connection.executescript(_SCHEMA)
    return connection


async def group_commit(folder: Path, runs: int, effects: int, concurrency: int) -> Rate:
    """So many producers side by side: *started* durable before each effect, *completed* with the next commit."""
    connection = await _opened(folder)
    journal = _Journal(connection)
    committing = asyncio.create_task(journal.commit_forever())
    todo = iter(range(runs))

    async def produce() -> None:
        for run in todo:
            for number in range(effects):
                row = (f"run-{run}", f"effect:{number}")
                await journal.start(row)
                journal.complete(row)

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(produce() for _ in range(concurrency)))
    await _hop(connection, [], journal._completed)  # noqa: SLF001 - what the last producers left
    rate = Rate(runs * effects, time.perf_counter() - began, time.process_time() - cpu, journal.commits + 1)
    committing.cancel()
    await connection.close()
    return rate


async def sequence(folder: Path, effects: int) -> Rate:
    """One record for each commit, one after the other."""
    connection = await _opened(folder)
    began, cpu = time.perf_counter(), time.process_time()
    for number in range(effects):
        await _hop(connection, [("run", f"effect:{number}")], [])
    rate = Rate(effects, time.perf_counter() - began, time.process_time() - cpu, effects)
    await connection.close()
    return rate
