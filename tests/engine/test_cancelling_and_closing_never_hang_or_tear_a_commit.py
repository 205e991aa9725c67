"""Callers that go away, and logs that are closed, while the engine writes."""

import asyncio
import contextlib
import random
import sqlite3
import threading
from pathlib import Path

import pytest
from support.failing_store import FailingStore
from support.whole_records import whole_records

from effectlog import EffectLog, StoreClosed, durable_task, effect
from effectlog.engine.engine import Engine


@durable_task
def note(text: str) -> str:
    return text


async def test_a_cancelled_caller_leaves_the_commit_to_go_on(store: FailingStore) -> None:
    async with EffectLog(store, check_store=False) as log:
        before = store.at_gate
        store.gate.clear()
        caller = asyncio.create_task(log.enqueue(note.with_options(idempotency_key="k"), "x"))
        while store.at_gate == before:
            await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        log._engine._loop.call_soon_threadsafe(store.gate.set)  # type: ignore[union-attr]
        run = await log.enqueue(note.with_options(idempotency_key="k"), "x")
        assert not run.created
        assert len(await log.list_runs()) == 1


async def test_cancelled_calls_never_keep_others_from_writing(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.db")
    other = sqlite3.connect(path, timeout=0.5, isolation_level=None)
    async with EffectLog(path, check_store=False) as log:
        other.execute("CREATE TABLE mine (n)")
        for number in range(200):
            call = asyncio.create_task(log.enqueue(note, "x" * 10_000))
            await asyncio.sleep(random.random() / 1000)
            call.cancel()
            other.execute("INSERT INTO mine VALUES (?)", (number,))
            with contextlib.suppress(asyncio.CancelledError):
                await call
        await log.enqueue(note, "last")
        for record in await whole_records(log, limit=1000):
            assert record.args["text"] in ("x" * 10_000, "last")
    other.close()


async def test_close_while_writing_answers_every_caller_and_keeps_what_was_acknowledged(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "runs.db")
    acknowledged = refused = 0
    for _ in range(100):
        log = EffectLog(path, check_store=False)
        await log.__aenter__()
        calls = [asyncio.create_task(log.enqueue(note, "x")) for _ in range(5)]
        calls += [asyncio.create_task(log.list_runs(limit=1)) for _ in range(2)]  # type: ignore[misc]
        for _ in range(random.randrange(4)):
            await asyncio.sleep(0)
        closing = asyncio.create_task(log.close())
        calls += [asyncio.create_task(log.enqueue(note, "y")) for _ in range(3)]
        await asyncio.wait_for(closing, 20)
        for outcome in await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 20):
            if isinstance(outcome, BaseException):
                assert isinstance(outcome, StoreClosed), repr(outcome)
                refused += 1
            elif not isinstance(outcome, list):
                acknowledged += 1
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        ((stored,),) = connection.execute("SELECT count(*) FROM effectlog_runs")
    connection.close()
    assert stored == acknowledged
    assert acknowledged > 0
    assert refused > 0


def test_close_while_threads_write_answers_every_thread(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.db")
    for _ in range(30):
        log = EffectLog(path, check_store=False)
        with log:
            going = threading.Barrier(5)

            def hammer(going: threading.Barrier = going, engine: Engine = log._engine) -> None:
                going.wait(60)
                try:
                    while True:
                        engine.commit_sync()
                        engine.call(asyncio.sleep(0)).result()
                except StoreClosed:
                    pass

            threads = [threading.Thread(target=hammer, daemon=True) for _ in range(4)]
            for thread in threads:
                thread.start()
            going.wait(60)
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive(), "a caller was never answered"


async def test_use_after_close_and_close_during_use_fail_at_once(tmp_path: Path) -> None:
    log = EffectLog(str(tmp_path / "runs.db"), check_store=False)
    with pytest.raises(StoreClosed):
        await log.enqueue(note, "before")
    async with log:
        run = await log.enqueue(note, "x")
        waiting = asyncio.create_task(run.result())
        await asyncio.sleep(0.05)
    with pytest.raises(StoreClosed):
        await asyncio.wait_for(waiting, 10)
    for call in (log.enqueue(note, "y"), run.record(), run.result(), log.list_runs(), log.run(note, "z")):
        with pytest.raises(StoreClosed):
            await asyncio.wait_for(call, 10)
    await log.close()


async def test_opening_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    for _ in range(20):
        log = EffectLog(str(tmp_path / "runs.db"), check_store=False)
        opening = asyncio.create_task(log.__aenter__())
        await asyncio.sleep(random.random() / 100)
        opening.cancel()
        try:
            await opening
            await log.close()
        except asyncio.CancelledError:
            pass
        assert not [t for t in threading.enumerate() if t.name == "effectlog-engine"]


@effect(key="big:{number}")
async def big(number: int) -> str:
    return str(number) * 900_000


@durable_task
async def writes_big(count: int) -> int:
    return sum([len(await big(number)) for number in range(count)])


async def test_large_records_are_whole_or_absent_however_often_their_writer_is_cancelled(
    tmp_path: Path,
) -> None:
    """F059."""
    async with EffectLog(str(tmp_path / "runs.db"), check_store=False) as log:
        task = writes_big.with_options(idempotency_key="one")
        for _ in range(15):
            call = asyncio.create_task(log.run(task, 6))
            await asyncio.sleep(random.random() / 20)
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await call
        assert await log.run(task, 6) == 6 * 900_000
        (record,) = await whole_records(log)
    for effect_record in record.effects:
        assert effect_record.result == effect_record.key[-1] * 900_000
        assert effect_record.state == "completed"
