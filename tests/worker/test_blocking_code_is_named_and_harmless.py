"""User code that blocks its loop, or the interpreter itself: the lease survives it, and people are told who it was."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import time
import warnings
from typing import TYPE_CHECKING

import pytest
from support.whole_records import whole_records
from worker_app import blocking

from effectlog import EffectLog, EffectLogWarning, durable_task, effect

if TYPE_CHECKING:
    from support.worker_processes import Field

    from effectlog import RunRecord

LEASE = 0.6


@effect(key="block:{seconds}")
def block(seconds: float) -> str:
    time.sleep(seconds)
    return "blocked"


@durable_task(name="blocks its loop")
async def blocks(seconds: float) -> str:
    return block(seconds)


@durable_task(name="blocks outside effects")
async def blocks_outside(seconds: float) -> str:
    time.sleep(seconds)
    return "blocked"


@effect(key="gil")
def hold_interpreter(seconds: float) -> None:
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))  # PyDLL keeps the interpreter lock.


@durable_task(name="holds the interpreter")
async def holds_interpreter(seconds: float) -> str:
    hold_interpreter(seconds)
    return "held"


@pytest.mark.paced
@pytest.mark.parametrize("share", [0.8, 3.0])
async def test_the_lease_survives_and_the_warning_names_who_and_how_long(field: Field, share: float) -> None:
    seconds = share * LEASE
    async with EffectLog(field.db, lease=LEASE) as log:

        async def execute() -> RunRecord:
            async with log.worker():
                run = await log.enqueue(blocks, seconds)
                await run.result(10)
                await asyncio.sleep(0.1)
            return await run.record()

        with pytest.warns(EffectLogWarning, match="event loop was blocked") as caught:
            record = await execute()
    assert (record.result, len(record.attempts), record.effects[0].requests) == ("blocked", 1, 1)
    (message,) = {str(warning.message) for warning in caught if "event loop" in str(warning.message)}
    assert "task blocks its loop" in message
    assert f"block:{seconds}" in message
    told = float(message.partition("blocked for ")[2].partition(" s")[0])
    assert seconds * 0.6 < told < seconds + 0.5


@pytest.mark.paced
async def test_no_peer_starts_a_run_whose_loop_is_blocked_for_three_leases(
    field: Field, log: EffectLog
) -> None:
    for _ in range(2):
        field.worker(lease=1.0)
    run = await log.enqueue(blocking, "a", 3.0)
    assert await run.result(15) == "a"
    assert field.whats() == ["a"]
    assert len((await run.record()).attempts) == 1


@pytest.mark.paced
async def test_code_that_holds_the_interpreter_ends_once(field: Field) -> None:
    """The whole process stands still: the lease may be lost, and then the loss is noticed and told."""
    async with EffectLog(field.db, lease=LEASE) as log:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EffectLogWarning)
            async with log.worker():
                short = await log.enqueue(holds_interpreter, LEASE * 0.5)
                assert await short.result(10) == "held"
                long = await log.enqueue(holds_interpreter, LEASE * 2)
                assert await long.result(10) == "held"
        assert len((await short.record()).attempts) == 1
        record = await long.record()
        assert record.effects[0].requests == 1 or len(record.attempts) > 1


@pytest.mark.paced
async def test_code_short_of_a_third_of_the_lease_is_not_told(field: Field) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", EffectLogWarning)
        async with EffectLog(field.db, lease=3.0) as log, log.worker():
            assert await (await log.enqueue(blocks_outside, 0.5)).result(10) == "blocked"


@pytest.mark.paced
async def test_a_block_that_has_not_ended_is_in_the_log_already(
    field: Field, caplog: pytest.LogCaptureFixture
) -> None:
    at: list[float] = []

    class Clock(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "has been blocked" in record.getMessage():
                at.append(time.monotonic())

    handler = Clock()
    logging.getLogger("effectlog").addHandler(handler)

    async def execute() -> float:
        async with EffectLog(field.db, lease=LEASE) as log, log.worker():
            await (await log.enqueue(blocks_outside, 1.5)).result(10)
            ended = time.monotonic()
            await asyncio.sleep(0.1)
        return ended

    try:
        with pytest.warns(EffectLogWarning):
            ended = await execute()
    finally:
        logging.getLogger("effectlog").removeHandler(handler)
    assert at
    assert at[0] < ended - 0.5
    assert "blocks outside effects" in caplog.text


@pytest.mark.paced
async def test_many_blocking_threads_of_the_default_pool_do_not_stop_the_heartbeat(field: Field) -> None:
    @durable_task(name="fills the pool")
    async def fills_the_pool() -> int:
        await asyncio.gather(*(asyncio.to_thread(time.sleep, 0.15) for _ in range(60)))
        return 1

    async with EffectLog(field.db, lease=0.5) as log, EffectLog(field.db, lease=0.5) as peer, log.worker():
        run = await log.enqueue(fills_the_pool)
        while not (await run.record()).attempts:
            await asyncio.sleep(0.005)
        async with peer.worker():
            assert await run.result(20) == 1
    async with EffectLog(field.db) as log:
        (record,) = await whole_records(log)
    assert len(record.attempts) == 1


@pytest.mark.paced
async def test_two_hundred_runs_on_a_short_lease_are_all_kept(field: Field) -> None:
    @durable_task(name="one of many")
    async def one_of_many(n: int) -> int:
        for _ in range(20):
            await asyncio.sleep(0.1)
        return n

    async with EffectLog(field.db, lease=2.0) as log, EffectLog(field.db, lease=2.0) as peer:
        async with log.worker(concurrency=200):
            runs = await log.enqueue_many(one_of_many, [(n,) for n in range(200)])
            async with peer.worker():
                assert await asyncio.gather(*(run.result(30) for run in runs)) == list(range(200))
        records = await whole_records(log, limit=200)
    assert [len(record.attempts) for record in records] == [1] * 200


@pytest.mark.paced
async def test_an_effect_of_many_leases_is_one_attempt_and_one_request(field: Field) -> None:
    @effect(key="long")
    async def long_effect() -> str:
        await asyncio.sleep(2.5)
        return "sent"

    @durable_task(name="many leases")
    async def many_leases() -> str:
        return await long_effect()

    logs = [EffectLog(field.db, lease=0.5) for _ in range(3)]
    async with logs[0] as a, logs[1] as b, logs[2] as c, a.worker(), b.worker(), c.worker():
        run = await a.enqueue(many_leases)
        assert await run.result(10) == "sent"
        record = await run.record()
    assert (len(record.attempts), record.effects[0].requests) == (1, 1)
