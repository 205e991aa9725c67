"""A store that can't be written must say so in our words, lose nothing, and work again once it can."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from effectlog.errors import StoreClosed, StoreError
from effectlog.store import commands as c
from effectlog.store.protocol import RunFilter
from effectlog.store.rows import NewRun
from effectlog.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "effectlog.db", busy_timeout=0.05)
    await store.open()
    yield store
    await store.close()


def create(name: str, size: int = 2) -> c.CreateRuns:
    return c.CreateRuns((NewRun(name, "task", b"x" * size),), "task")


async def test_a_lock_held_past_the_timeout_is_transient_and_named(
    store: SqliteStore, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "effectlog.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="store locked by") as locked:
            await store.apply([create("one")])
        assert locked.value.transient
        assert await store.get("one") is None, "a reader waits for a writer"
        other.execute("ROLLBACK")
    await store.apply([create("one")])
    assert await store.get("one") is not None


async def test_a_full_disk_is_named_and_nothing_of_the_batch_is_left(store: SqliteStore) -> None:
    def limit(connection: sqlite3.Connection, working_set: int) -> None:
        connection.execute(f"PRAGMA max_page_count = {working_set}")

    await store._call(store._writer, limit, 100)
    with pytest.raises(StoreError, match="disk is full") as full:
        await store.apply([create("small"), create("large", 1_000_000)])
    assert not full.value.transient
    assert await store.find(RunFilter()) == []
    await store._call(store._writer, limit, 1_000_000)
    await store.apply([create("small"), create("large", 1_000_000)])
    assert len(await store.find(RunFilter())) == 2


async def test_a_refused_value_is_our_error_and_leaves_the_store_usable(store: SqliteStore) -> None:
    for bad in (
        NewRun("x" * 65, "task", b"[]"),
        NewRun("\ud800", "task", b"[]"),
        NewRun("n", "task", b"", depth=2**63),
    ):
        with pytest.raises(StoreError):
            await store.apply([create("good"), c.CreateRuns((bad,), "task")])
    assert await store.find(RunFilter()) == []
    await store.apply([create("good")])


async def test_use_after_close_is_an_immediate_error(store: SqliteStore) -> None:
    calls = [asyncio.ensure_future(store.apply([create(f"run-{n}")])) for n in range(20)]
    await asyncio.sleep(0)
    await store.close()
    results = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), timeout=20)
    assert all(isinstance(result, list | StoreClosed) for result in results), results
    for use in (store.apply([create("late")]), store.get("run-0"), store.states(["run-0"]), store.workers()):
        with pytest.raises(StoreClosed):
            await use
    await store.close()


async def test_a_cancelled_caller_leaves_no_transaction_open(store: SqliteStore, tmp_path: Path) -> None:
    for n in range(50):
        call = asyncio.ensure_future(store.apply([create(f"run-{n}", 50_000)]))
        for _ in range(n % 4):
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    await store.apply([create("last")])
    with closing(sqlite3.connect(tmp_path / "effectlog.db", timeout=10, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
    runs = [await store.get(listed.row.id) for listed in await store.find(RunFilter())]
    assert {len(run.args) for run in runs if run is not None} <= {2, 50_000}


async def test_a_run_is_read_as_of_one_moment(store: SqliteStore, tmp_path: Path) -> None:
    from effectlog.store.sqlite.reads import _snapshot

    await store.apply([create("run")])
    seen = []

    def read(connection: sqlite3.Connection, path: Path) -> list[object]:
        count = "SELECT count(*) FROM effectlog_runs"
        seen.append(connection.execute(count).fetchone())
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("DELETE FROM effectlog_runs")
        seen.append(connection.execute(count).fetchone())
        return []

    await store._read(_snapshot, read, tmp_path / "effectlog.db")
    assert seen == [(1,), (1,)]
    assert await store.get("run") is None, "the reader holds on to a moment that is over"


async def test_others_commits_wake_whoever_waits_for_changes(store: SqliteStore, tmp_path: Path) -> None:
    await asyncio.wait_for(store.changed(), timeout=20)
    waiting = asyncio.ensure_future(store.changed())
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    assert not done, "woken without a change"
    other = SqliteStore(tmp_path / "effectlog.db")
    await other.open()
    await other.apply([create("theirs")])
    await other.close()
    await asyncio.wait_for(waiting, timeout=20)
