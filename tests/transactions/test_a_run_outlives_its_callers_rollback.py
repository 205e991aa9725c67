"""A run made in the caller's transaction lives and dies with the caller's own writes, whatever the driver."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any

import aiosqlite
import pytest
from support.callers import AWAITED, BLOCKING, RolledBackError, from_asyncpg, from_sqlite3
from support.orders import is_postgres, orders, ship

from effectlog import ConfigurationError, EffectLog, IdempotencyConflict, StoreError, durable_task
from effectlog.store import commands as c

if TYPE_CHECKING:
    from pathlib import Path


def kind(store_url: str) -> str:
    return "postgres" if is_postgres(store_url) else "sqlite"


KEYED = ship.with_options(idempotency_key="order:a")


async def test_what_an_awaiting_caller_makes(store_url: str) -> None:
    async with EffectLog(store_url) as log:
        for driver in AWAITED[kind(store_url)]:
            with contextlib.suppress(RolledBackError):
                async with driver(store_url) as transaction:
                    assert (await log.within(transaction).enqueue(KEYED, "a")).created
                    await log.within(transaction).emit("ordered", "a")
                    raise RolledBackError
            assert await log.list_runs() == [], driver
            assert await orders(store_url) == [], driver
        for driver in AWAITED[kind(store_url)]:
            async with driver(store_url) as transaction:
                run = await log.within(transaction).enqueue(KEYED, "a")
                (event,) = await log.within(transaction).emit("ordered", "a", idempotency_key="e")
                seen = {record.id for record in await log.list_runs()}
                assert run.created == event.created == (run.id not in seen), driver
            assert {record.id for record in await log.list_runs()} == {run.id, event.id}, driver
        async with log.worker():
            assert [await run.result(timeout=10), await event.result(timeout=10)] == ["a", "a"]
    assert await orders(store_url) == ["a"] * len(AWAITED[kind(store_url)])


async def test_what_a_blocking_caller_makes(store_url: str) -> None:
    def make(log: EffectLog, driver: Any, *, stay: bool) -> list[Any]:
        with driver(store_url) as transaction:
            within = log.sync.within(transaction)
            runs = [within.enqueue(KEYED, "a"), *within.emit("ordered", "a", idempotency_key="e")]
            if not stay:
                raise RolledBackError
        return runs

    async with EffectLog(store_url) as log:
        for driver in BLOCKING[kind(store_url)]:
            with pytest.raises(RolledBackError):
                await asyncio.to_thread(make, log, driver, stay=False)
            assert await log.list_runs() == [], driver
            assert await orders(store_url) == [], driver
        for number, driver in enumerate(BLOCKING[kind(store_url)]):
            runs = await asyncio.to_thread(make, log, driver, stay=True)
            assert [run.created for run in runs] == [number == 0] * 2, driver
            assert {record.id for record in await log.list_runs()} == {run.id for run in runs}, driver
        async with log.worker():
            assert [await asyncio.to_thread(run.result, 10) for run in runs] == ["a", "a"]
    assert await orders(store_url) == ["a"] * len(BLOCKING[kind(store_url)])


async def test_an_idle_worker_sees_it_at_once(store_url: str) -> None:
    """Committed beside the store's own connections, and noticed all the same."""
    async with EffectLog(store_url) as log, log.worker():
        await asyncio.sleep(0.1)
        async with AWAITED[kind(store_url)][0](store_url) as transaction:
            run = await log.within(transaction).enqueue(ship, "a")
        assert await run.result(timeout=20) == "a"


async def test_a_key_with_other_arguments_is_a_conflict_and_stores_nothing(store_url: str) -> None:
    async with EffectLog(store_url) as log:
        await log.enqueue(KEYED, "a")
        with pytest.raises(IdempotencyConflict, match="another name"):
            async with AWAITED[kind(store_url)][0](store_url) as transaction:
                await log.within(transaction).enqueue(KEYED, "b")
        assert len(await log.list_runs()) == 1
    assert await orders(store_url) == []


LOGS: list[EffectLog] = []


@durable_task
async def parent(url: str) -> str:
    async with AWAITED[kind(url)][0](url) as transaction:
        run = await LOGS[-1].within(transaction).enqueue(KEYED, "a")
        with contextlib.suppress(ConfigurationError):
            await LOGS[-1].within(transaction).enqueue(ship, "a")
            raise AssertionError("a child without a key")
    return run.id


async def test_a_child_belongs_to_its_parent(store_url: str) -> None:
    async with EffectLog(store_url) as log:
        LOGS.append(log)
        child_id = await log.run(parent, store_url)
        child = await (await log.get_run(child_id)).record()
        (family,) = await log.list_runs(task=parent)
    assert child.parent_id == family.id


@durable_task
async def overtaken(url: str, run_ids: list[str]) -> None:
    del run_ids
    async with from_asyncpg(url) as transaction:
        here = (await LOGS[-1].list_runs(task=overtaken))[0]
        await LOGS[-1].administration.engine.commit(c.CancelRun(here.id, force=True))
        await LOGS[-1].within(transaction).enqueue(KEYED, "a")


async def test_a_parent_that_lost_its_run_makes_nothing(postgres: str) -> None:
    async with EffectLog(postgres) as log:
        LOGS.append(log)
        run = await log.enqueue(overtaken, postgres, [])
        async with log.worker():
            while (await run.record()).state != "cancelled":
                await asyncio.sleep(0.01)
        assert await log.list_runs(task=ship) == []
    assert await orders(postgres) == []


async def test_what_is_no_transaction_on_this_file_is_refused(sqlite_path: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")
    async with EffectLog(sqlite_path) as log:
        for path, level, match in ((other, "", "other.db"), (":memory:", "", "is to :memory:")):
            connection = sqlite3.connect(path, isolation_level=level)
            with contextlib.closing(connection), pytest.raises(ConfigurationError, match=match):
                log.sync.within(connection).enqueue(ship, "a")
        connection = sqlite3.connect(sqlite_path, isolation_level=None)
        with contextlib.closing(connection), pytest.raises(ConfigurationError, match="in no transaction"):
            log.sync.within(connection).enqueue(ship, "a")
        async with aiosqlite.connect(sqlite_path) as awaited:
            with pytest.raises(ConfigurationError, match="has to be awaited"):
                log.sync.within(awaited).enqueue(ship, "a")
        with pytest.raises(ConfigurationError, match="a str is no connection"):
            await log.within(sqlite_path).enqueue(ship, "a")
        assert await log.list_runs() == []


async def test_a_transaction_that_read_too_early_is_told_to_roll_back(sqlite_path: str) -> None:
    async with EffectLog(sqlite_path) as log:
        with contextlib.closing(sqlite3.connect(sqlite_path, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            connection.execute("SELECT * FROM orders").fetchall()
            await log.enqueue(ship, "a")
            with pytest.raises(StoreError, match="BEGIN IMMEDIATE") as caught:
                log.sync.within(connection).enqueue(ship, "b")
            assert caught.value.transient
            assert connection.in_transaction
            connection.execute("ROLLBACK")


async def test_a_store_in_memory_has_no_callers(tmp_path: Path) -> None:
    async with EffectLog(":memory:") as log:
        connection = sqlite3.connect(tmp_path / "x.db")
        with contextlib.closing(connection), pytest.raises(ConfigurationError, match="the store is :memory:"):
            log.sync.within(connection).enqueue(ship, "a")


async def test_the_stores_own_writes_wait_for_a_long_transaction(sqlite_path: str) -> None:
    """One writer: what the engine has to store meanwhile is stored after the caller's commit."""
    async with EffectLog(sqlite_path) as log:
        with from_sqlite3(sqlite_path) as connection:
            run = log.sync.within(connection).enqueue(ship, "a")
            later = asyncio.ensure_future(log.enqueue(ship, "b"))
            await asyncio.sleep(0.05)
            assert not later.done()
        assert (await later).created
        assert {record.id for record in await log.list_runs()} == {run.id, (await later).id}
