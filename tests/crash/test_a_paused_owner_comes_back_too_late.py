"""SIGSTOP past the lease, SIGCONT after somebody else took over: scenario S6, and user code that swallows everything."""

import asyncio
import signal
from typing import Any

import crash_tasks
import pytest

from effectlog import EffectLog
from effectlog.testing.destinations import CountingDestination

LEASE = 0.4
FORMS = [crash_tasks.one_sync, crash_tasks.one_async]


async def paused_at(point: str, spawn: Any, store: str) -> Any:
    first = spawn(f"--lease={LEASE}", pause_at=point)
    await asyncio.to_thread(first.wait_for, f"reached {point}")
    first.stop(between_writes_of=store)
    return first


async def woken(first: Any, *, until: str) -> None:
    first.go()
    first.signal(signal.SIGCONT)
    await asyncio.to_thread(first.wait_for, until)


@pytest.mark.paced
@pytest.mark.parametrize("task", FORMS, ids=["sync", "async"])
async def test_its_result_and_its_effect_are_not_stored(
    store: str, destination: CountingDestination, spawn: Any, task: Any
) -> None:
    async with EffectLog(store, lease=LEASE, check_store=False) as log:
        run = await log.enqueue(task, "keyed")
        first = await paused_at("accepted", spawn, store)
        async with log.worker(name="B"):
            assert await run.result(timeout=10) == "done:one"
        before = await run.record()
        await woken(first, until="durable completed")
        record = await run.record()
    assert (len(destination.requests()), len(destination.effects())) == (2, 1)
    assert [(a.worker, a.outcome) for a in record.attempts] == [("A", "expired"), ("B", "succeeded")]
    assert record.result == before.result
    assert record.finished_at == before.finished_at
    assert (record.effects[0].attempt, record.effects[0].state) == (2, "completed")
    assert record.effects[0].finished_at == before.effects[0].finished_at


@pytest.mark.paced
@pytest.mark.parametrize("task", FORMS, ids=["sync", "async"])
async def test_its_late_outcome_settles_an_effect_that_is_held(
    store: str, destination: CountingDestination, spawn: Any, task: Any
) -> None:
    async with EffectLog(store, lease=LEASE, check_store=False) as log:
        run = await log.enqueue(task, "hold")
        first = await paused_at("accepted", spawn, store)
        async with log.worker(name="B"):
            while (await run.record()).state != "held":
                await asyncio.sleep(0.01)
            await woken(first, until="durable completed")
            assert await run.result(timeout=10) == "done:one"
        record = await run.record()
    assert (len(destination.requests()), len(destination.effects())) == (1, 1)
    assert record.effects[0].requests == 1
    assert record.effects[0].resolved_by == "late outcome of attempt 1"


@pytest.mark.paced
@pytest.mark.parametrize("point", ["after started", "before call"])
@pytest.mark.parametrize("task", FORMS, ids=["sync", "async"])
async def test_paused_between_the_record_and_the_call_it_does_not_call(
    store: str, destination: CountingDestination, spawn: Any, task: Any, point: str
) -> None:
    """Only the last look before the call can see it.

    Past that look (``before call``) the request goes out.
    """
    async with EffectLog(store, lease=LEASE, check_store=False) as log:
        run = await log.enqueue(task, "keyed")
        first = await paused_at(point, spawn, store)
        async with log.worker(name="B"):
            assert await run.result(timeout=10) == "done:one"
            first.go()
            first.signal(signal.SIGCONT)
            if point == "before call":
                await asyncio.to_thread(destination.wait_for_requests, 2)
            outcome = "not_made" if point == "after started" else "completed"
            await asyncio.to_thread(first.wait_for, f"durable {outcome}")
            second = await log.enqueue(task.with_options(idempotency_key="second"), "keyed")
            await second.result(timeout=10)  # The woken worker is alive, and not at the first run.
        record = await run.record()
    sent = [request for request in destination.requests() if request.key == record.effects[0].operation_id]
    assert len(sent) == (1 if point == "after started" else 2)
    assert len({request.key for request in destination.requests()}) == len(destination.effects()) == 2
    assert record.attempts[1].worker == "B"


@pytest.mark.paced
@pytest.mark.parametrize("name", ["stubborn_sync", "stubborn_async", "careless_sync"])
async def test_it_starts_no_further_effect_though_user_code_swallows_the_signal(
    store: str, destination: CountingDestination, spawn: Any, name: str
) -> None:
    async with EffectLog(store, lease=LEASE, check_store=False) as log:
        run = await log.enqueue(crash_tasks.TASKS[name])
        first = await paused_at("accepted", spawn, store)
        async with log.worker(name="B"):
            assert await run.result(timeout=10) == "stubborn"
        await woken(first, until="durable completed" if name == "careless_sync" else "body over")
        other = await log.enqueue(crash_tasks.one_async, "keyed")
        await other.result(timeout=10)  # By the woken worker, which goes on with what it may do.
        assert (await other.record()).attempts[0].worker == "A"
        record = await run.record()
    operations = [request.operation for request in destination.requests()]
    assert sorted(operations) == ["one", "one", "one", "three", "two"]
    assert len(destination.effects()) == 4
    assert [(a.worker, a.outcome) for a in record.attempts] == [("A", "expired"), ("B", "succeeded")]
    assert all(effect.attempt == 2 for effect in record.effects)


@pytest.mark.timed
async def test_nobody_takes_over_before_the_lease_ends_and_somebody_does_right_after(
    store: str, destination: CountingDestination, spawn: Any
) -> None:
    loop = asyncio.get_running_loop()
    async with EffectLog(store, lease=LEASE, check_store=False) as log:
        run = await log.enqueue(crash_tasks.one_async, "keyed")
        async with log.worker(name="B", concurrency=1, tasks=[crash_tasks.one_sync]):
            first = await paused_at("accepted", spawn, store)
            stopped = loop.time()
        async with log.worker(name="B"):
            await run.result(timeout=10)
            took = loop.time() - stopped
    heartbeat = LEASE / 3
    assert LEASE - heartbeat - 0.1 < took < LEASE + 0.5 + 0.3
    assert first.lines[-1] == "reached accepted"
