"""An effect that writes to the store's own database: its writes and its record are both there, or neither is."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from support.orders import aorder, is_postgres, order, orders, set_hook, ship, task_for, write
from support.whole_records import whole_records

from effectlog import (
    ConfigurationError,
    EffectLog,
    EffectState,
    NotInAttempt,
    Retry,
    RunFailed,
    StoreError,
    current_transaction,
    durable_task,
    effect,
)
from effectlog.errors import StoreTrouble
from effectlog.store import commands as c
from effectlog.store.postgres.effect_transaction import OpenTransaction as PostgresTransaction
from effectlog.store.sqlite.transactions import OpenTransaction as SqliteTransaction

if TYPE_CHECKING:
    from collections.abc import Iterator


class BrokenError(Exception):
    pass


@pytest.fixture(autouse=True)
def _no_hooks() -> Iterator[None]:
    yield
    set_hook("postgresql://", lambda _: None)
    set_hook("", lambda _: None)


def once(action: Any) -> Any:
    """A hook that acts in the first call alone."""
    left = [action]
    return lambda connection: left.pop()(connection) if left else None


def breaks(_: Any) -> None:
    raise BrokenError("after the write")


async def test_the_writes_and_the_record_are_there(store_url: str) -> None:
    async with EffectLog(store_url) as log:
        task = task_for(store_url).with_options(idempotency_key="k")
        assert [await log.run(task, "a"), await log.run(task, "a")] == ["A", "A"]
        ((effect_record,),) = [record.effects for record in await whole_records(log)]
    assert await orders(store_url) == ["a"]
    assert (effect_record.state, effect_record.requests) == (EffectState.COMPLETED, 1)


async def test_an_exception_takes_the_writes_back_and_leaves_no_doubt(store_url: str) -> None:
    set_hook(store_url, once(breaks))
    async with EffectLog(store_url) as log:
        assert await log.run(task_for(store_url), "a") == "A"
        (record,) = await whole_records(log)
    assert await orders(store_url) == ["a"]
    assert [attempt.outcome for attempt in record.attempts] == ["error", "succeeded"]
    assert record.effects[0].requests == 2
    set_hook(store_url, breaks)
    async with EffectLog(store_url) as log:
        with pytest.raises(RunFailed, match="after the write"):
            await log.run(task_for(store_url), "b")
        (record, _) = await whole_records(log)
    assert await orders(store_url) == ["a"]
    assert (record.effects[0].state, record.effects[0].in_doubt) == (EffectState.FAILED, False)


async def test_a_result_that_cannot_be_stored_takes_the_writes_back(store_url: str) -> None:
    async with EffectLog(store_url, max_value_bytes=200) as log:
        with pytest.raises(RunFailed, match="the result takes"):
            await log.run(task_for(store_url), "ΐ" * 20)  # Capitals take three times as much.
    assert await orders(store_url) == []


async def test_an_attempt_that_was_fenced_out_writes_nothing(store_url: str) -> None:
    async with EffectLog(store_url) as log:
        run = await log.enqueue(task_for(store_url), "a")
        engine, loop, fenced = log.administration.engine, asyncio.get_running_loop(), asyncio.Event()
        store: Any = engine.store
        begin = "transaction" if is_postgres(store_url) else "transaction_sync"
        open_transaction = getattr(store, begin)

        def overtaken_first() -> Any:
            # Not through this process's handle: the attempt must not know.
            engine.call(store.apply([c.CancelRun(run.id, force=True)])).result()
            loop.call_soon_threadsafe(fenced.set)
            return open_transaction()

        setattr(store, begin, overtaken_first)
        async with log.worker():
            await asyncio.wait_for(fenced.wait(), 10)
        record = await run.record()
    assert await orders(store_url) == []
    assert (record.state, record.effects[0].state) == ("cancelled", EffectState.FAILED)
    assert not record.effects[0].in_doubt


async def test_a_cancelled_effect_writes_nothing_and_is_not_in_doubt(postgres: str) -> None:
    inside = asyncio.Event()

    async def hang(_: Any) -> None:
        inside.set()
        await asyncio.Event().wait()

    set_hook(postgres, hang)
    async with EffectLog(postgres) as log:
        run = await log.enqueue(aorder, "a")
        async with log.worker():
            await asyncio.wait_for(inside.wait(), 10)
            await run.cancel()
        record = await run.record()
    assert await orders(postgres) == []
    assert (record.state, record.effects[0].in_doubt) == ("cancelled", False)


async def test_a_cancellation_during_the_commit_waits_for_its_answer(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = asyncio.Event()
    commit = PostgresTransaction.commit

    async def slow(self: Any) -> None:
        await commit(self)
        inside.set()
        await asyncio.sleep(0.2)

    monkeypatch.setattr(PostgresTransaction, "commit", slow)
    async with EffectLog(postgres) as log:
        run = await log.enqueue(aorder, "a")
        async with log.worker():
            await asyncio.wait_for(inside.wait(), 10)
            await run.cancel()
        record = await run.record()
    assert await orders(postgres) == ["a"]
    assert (record.state, record.effects[0].state) == ("cancelled", EffectState.COMPLETED)


@pytest.mark.parametrize("landed", [True, False])
async def test_a_commit_whose_answer_is_lost_is_found_out(
    store_url: str, landed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind: Any = PostgresTransaction if is_postgres(store_url) else SqliteTransaction
    commit, lost = kind.commit, [True]
    error = StoreError("the answer was lost", transient=True, reason=StoreTrouble.OUTCOME_UNKNOWN)

    def sync_commit(self: Any) -> None:
        first = lost and lost.pop()
        if landed or not first:
            commit(self)
        if first:
            raise error

    async def async_commit(self: Any) -> None:
        first = lost and lost.pop()
        if landed or not first:
            await commit(self)
        if first:
            self.connection.terminate()
            raise error

    monkeypatch.setattr(kind, "commit", async_commit if is_postgres(store_url) else sync_commit)
    monkeypatch.setattr("effectlog.worker.outcome.GIVE_BACK_DELAY", 0.05)
    async with EffectLog(store_url) as log:
        assert await log.run(task_for(store_url), "a") == "A"
        (record,) = await whole_records(log)
    assert await orders(store_url) == ["a"]
    assert record.effects[0].requests == (1 if landed else 2)
    assert not [attempt for attempt in record.attempts if attempt.outcome == "error"]


async def test_a_function_that_ends_its_transaction_is_stopped_or_held(store_url: str) -> None:
    if is_postgres(store_url):
        set_hook(store_url, lambda connection: connection.execute("COMMIT"))
        async with EffectLog(store_url) as log:
            run = await log.enqueue(aorder, "a")
            async with log.worker():
                while (record := await run.record()).state in ("pending", "running"):
                    await asyncio.sleep(0.01)
        assert record.state == "held"
        assert await orders(store_url) == ["a"]
    else:
        set_hook(store_url, lambda connection: connection.commit())
        async with EffectLog(store_url) as log:
            with pytest.raises(RunFailed, match="commit, roll back or begin by itself"):
                await log.run(order, "a")
        assert await orders(store_url) == []


async def test_a_swallowed_database_error_is_the_tasks_and_not_the_stores(postgres: str) -> None:
    async def swallow(connection: asyncpg.Connection) -> None:
        try:
            await connection.execute("SELECT 1 / 0")
        except asyncpg.PostgresError:
            return

    set_hook(postgres, swallow)
    async with EffectLog(postgres) as log:
        with pytest.raises(RunFailed, match="savepoint of its own"):
            await log.run(aorder, "a")


@effect(key="order:{name}", transactional=True)
async def with_child(name: str) -> None:
    await LOGS[-1].within(current_transaction()).enqueue(ship.with_options(idempotency_key=name), name)
    await current_transaction().execute("INSERT INTO orders VALUES ($1, 1)", name)
    if BREAK:
        raise BREAK.pop()


@effect(key="order:{name}", transactional=True)
def with_child_sync(name: str) -> None:
    LOGS[-1].sync.within(current_transaction()).enqueue(ship.with_options(idempotency_key=name), name)
    current_transaction().execute("INSERT INTO orders VALUES (?, 1)", (name,))
    if BREAK:
        raise BREAK.pop()


LOGS: list[EffectLog] = []
BREAK: list[Exception] = []


@durable_task(retry=Retry(max_attempts=1))
async def parent(name: str) -> None:
    await (with_child(name) if is_postgres(name) else asyncio.to_thread(with_child_sync, name))


async def test_a_child_made_by_the_effect_commits_with_it(store_url: str) -> None:
    async with EffectLog(store_url) as log:
        LOGS.append(log)
        BREAK.append(BrokenError("rolled back"))
        with pytest.raises(RunFailed):
            await log.run(parent, store_url)
        assert await log.list_runs(task=ship) == []
        await log.run(parent, store_url)
        (child,) = await log.list_runs(task=ship)
        assert child.parent_id is not None
    assert await orders(store_url) == [store_url]


@effect(key="x", transactional=True)
def beside() -> None:
    LOGS[-1].sync.enqueue(ship.with_options(idempotency_key="x"), "x")


@durable_task(retry=Retry(max_attempts=1))
def makes_a_run_beside() -> None:
    beside()


async def test_a_run_beside_the_transaction_is_refused(sqlite_path: str) -> None:
    async with EffectLog(sqlite_path) as log:
        LOGS.append(log)
        with pytest.raises(RunFailed, match=r"log.within\(current_transaction\(\)\)"):
            await log.run(makes_a_run_beside)


async def test_what_does_not_fit_is_refused_before_anything_is_recorded(
    sqlite_path: str, postgres: str
) -> None:
    for url, task, given in ((sqlite_path, aorder, "to sync"), (postgres, order, "to async")):
        async with EffectLog(url) as log:
            with pytest.raises(RunFailed, match=given):
                await log.run(task, "a")
            (record,) = await whole_records(log)
            assert record.effects == ()
    async with EffectLog(":memory:") as log:
        with pytest.raises(RunFailed, match="no second connection"):
            await log.run(order, "a")


def test_declarations_that_contradict_it_are_refused() -> None:
    for options in ({"in_doubt": "hold"}, {"destination": "stripe/v1"}, {"not_applied": ValueError}):
        with pytest.raises(ConfigurationError, match="excludes"):
            effect("k", transactional=True, **options)(lambda: None)  # type: ignore[arg-type]


def test_outside_an_attempt_there_is_no_transaction() -> None:
    with pytest.raises(NotInAttempt, match="open a connection of your own"):
        write("a")
    assert issubclass(sqlite3.Connection, object)
