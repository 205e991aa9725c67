"""What the explorer visits in memory is what both stores do: traces are played against their real ``apply``.

This catches what the rules can't: rows that are written back wrongly, statements that match too much, and commands of one
batch that don't see each other.
"""

from __future__ import annotations

import sqlite3
import time
from functools import cache
from typing import TYPE_CHECKING

import asyncpg
import pytest
from exploration.played import Doors, Trace, play, sampled
from exploration.production import MovableClock, PostgresStore, SqliteStore
from exploration.scopes import DEFAULT
from exploration.search import Search

if TYPE_CHECKING:
    from pathlib import Path

_STATES = 1_000
"""A part of each scope, the nearest states first: their traces are short and have every kind of change there is."""


@cache
def traces(count: int) -> list[Trace]:
    """As many traces of each scope, the shortest to each kind of change among them."""
    found: list[Trace] = []
    for scope in DEFAULT.values():
        search = Search(scope, most_states=_STATES, progress=False)
        assert not search.run().broken
        found += sampled(search, count)
    return found


_TIME = {"lapse": "lease_expires = 0", "due": "due_at = 0"}


async def on_sqlite(path: Path, played: list[Trace], *, batched: bool) -> list[str]:
    clock = MovableClock()
    store = SqliteStore(str(path), clock=clock)
    await store.open()
    beside = sqlite3.connect(path, isolation_level=None)

    async def execute(what: str, runs: list[str]) -> None:
        beside.execute("BEGIN IMMEDIATE")
        beside.executemany(f"UPDATE effectlog_runs SET {_TIME[what]} WHERE id = ?", [(run,) for run in runs])
        beside.execute("COMMIT")

    try:
        doors = Doors(store.apply, store.get, execute, clock.wall, clock.monotonic)
        return await play(doors, played, batched=batched, name="run")
    finally:
        beside.close()
        await store.close()


async def on_postgres(url: str, schema: str, played: list[Trace], *, batched: bool) -> list[str]:
    store = PostgresStore(url, schema=schema)
    await store.open()
    beside = await asyncpg.connect(url)

    async def execute(what: str, runs: list[str]) -> None:
        await beside.execute(f"UPDATE {schema}.runs SET {_TIME[what]} WHERE id = ANY($1)", runs)

    try:
        doors = Doors(store.apply, store.get, execute, time.time, time.time)
        return await play(doors, played, batched=batched, name="run")
    finally:
        await beside.close()
        await store.close()


@pytest.mark.parametrize("batched", [False, True])
async def test_sqlite_holds_what_the_rules_say(tmp_path: Path, batched: bool) -> None:
    wrong = await on_sqlite(tmp_path / "effectlog.db", traces(80), batched=batched)
    assert not wrong, "\n".join(wrong[:3])


async def test_postgresql_holds_what_the_rules_say(postgres_database: str, postgres_schema: str) -> None:
    wrong = await on_postgres(postgres_database, postgres_schema, traces(80)[::3], batched=True)
    assert not wrong, "\n".join(wrong[:3])


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("batched", [False, True])
async def test_both_stores_hold_what_the_rules_say_in_thousands_of_traces(
    tmp_path: Path, postgres_database: str, postgres_schema: str, batched: bool
) -> None:
    wrong = await on_sqlite(tmp_path / "effectlog.db", traces(400), batched=batched)
    wrong += await on_postgres(postgres_database, postgres_schema, traces(400), batched=batched)
    assert not wrong, "\n".join(wrong[:3])
