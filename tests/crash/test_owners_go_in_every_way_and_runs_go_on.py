"""Released, orphaned, restarted under the same name, paused without a peer: the run goes on, and nothing is sent twice
that need not be.
"""

import asyncio
import random
import signal
import time
from typing import Any

import crash_tasks
import pytest
from support.whole_records import whole_records

from effectlog import EffectLog, RunHeld
from effectlog.testing.destinations import CountingDestination

SOON = 10.0
"""Seconds, on a busy machine; leases end after 30."""


@pytest.mark.paced
@pytest.mark.parametrize(
    ("task", "point", "policy", "requests", "effects"),
    [
        (crash_tasks.one_sync, "accepted", "keyed", 2, 1),
        (crash_tasks.one_sync, "accepted", "bare", 2, 2),
        (crash_tasks.one_sync, "accepted", "hold", 1, 1),
        (crash_tasks.one_sync, "before request", "keyed", 1, 1),
        (crash_tasks.one_async, "accepted", "keyed", 2, 1),
        (crash_tasks.one_async, "accepted", "hold", 1, 1),
    ],
)
async def test_released_inside_an_effect(
    store: str,
    destination: CountingDestination,
    spawn: Any,
    task: Any,
    point: str,
    policy: str,
    requests: int,
    effects: int,
) -> None:
    """S7: a second signal.

    Code that will not stop goes with its process, and the attempt counts as released.
    """
    async with EffectLog(store, lease=30, check_store=False) as log:
        run = await log.enqueue(task, policy)
        first = spawn("--serve", "--lease=30", pause_at=point)
        await asyncio.to_thread(first.wait_for, f"reached {point}")
        asked = time.monotonic()
        first.signal(signal.SIGTERM)
        first.signal(signal.SIGINT)  # Another one: two of a kind may arrive as one.
        await asyncio.to_thread(first.wait)
        assert time.monotonic() - asked < SOON
        async with log.worker(name="B"):
            gone = time.monotonic()
            if policy == "hold":
                with pytest.raises(RunHeld):
                    await run.result(timeout=10)
            else:
                assert await run.result(timeout=10) == "done:one"
            assert time.monotonic() - gone < SOON
        record = await run.record()
    assert [attempt.outcome for attempt in record.attempts] == [
        "released",
        "held" if policy == "hold" else "succeeded",
    ]
    assert (len(destination.requests()), len(destination.effects())) == (requests, effects)


@pytest.mark.parametrize("kind", ["fork", "popen", "popen with descriptors"])
async def test_descendants_of_a_killed_owner_do_not_keep_its_runs(
    store: str, destination: CountingDestination, spawn: Any, kind: str
) -> None:
    async with EffectLog(store, lease=30, check_store=False) as log:
        run = await log.enqueue(crash_tasks.leaves_grandchildren, kind)
        first = spawn("--lease=30", pause_at="accepted")
        await asyncio.to_thread(first.wait_for, "reached accepted")
        first.signal(signal.SIGKILL)
        killed = time.monotonic()
        async with log.worker(name="B", tasks=[crash_tasks.one_sync]):
            while (await run.record()).attempts[0].outcome is None:
                await asyncio.sleep(0.005)
            took = time.monotonic() - killed
        record = await run.record()
    assert record.attempts[0].outcome == "expired"
    assert took < SOON


@pytest.mark.paced
async def test_paused_without_a_peer_it_goes_on_by_itself_and_sends_once(
    store: str, destination: CountingDestination, spawn: Any
) -> None:
    """F011, F024: its outcome counts, since nobody has the run.

    Its end doesn't, and it claims the run again.
    """
    async with EffectLog(store, lease=0.4, check_store=False) as log:
        run = await log.enqueue(crash_tasks.one_async, "keyed")
        first = spawn("--lease=0.4", pause_at="accepted")
        await asyncio.to_thread(first.wait_for, "reached accepted")
        first.stop(between_writes_of=store)
        while not (await run.record()).effects[0].in_doubt:  # Shown as soon as the lease has ended.
            await asyncio.sleep(0.02)
        first.go()
        first.signal(signal.SIGCONT)
        assert await run.result(timeout=10) == "done:one"
        record = await run.record()
    assert [(a.worker, a.outcome) for a in record.attempts] == [("A", "expired"), ("A", "succeeded")]
    assert len(destination.requests()) == 1
    assert record.effects[0].requests == 1


async def test_a_restart_under_the_same_name_does_not_own_what_the_dead_one_owned(
    store: str, destination: CountingDestination, spawn: Any
) -> None:
    """F016, F029."""
    async with EffectLog(store, lease=30, check_store=False) as log:
        run = await log.enqueue(crash_tasks.one_sync, "keyed")
        first = spawn("--lease=30", "--name=A", pause_at="accepted")
        await asyncio.to_thread(first.wait_for, "reached accepted")
        await asyncio.to_thread(first.kill)
        killed = time.monotonic()
        spawn("--lease=30", "--name=A")
        assert await run.result(timeout=10) == "done:one"
        assert time.monotonic() - killed < SOON
        record = await run.record()
    assert [(a.worker, a.outcome) for a in record.attempts] == [("A", "expired"), ("A", "succeeded")]


async def test_several_workers_of_one_process_share_the_work_and_never_a_run(
    store: str, destination: CountingDestination
) -> None:
    """F026: a second worker object leaves alone what the first one runs, also while its process looks dead to nobody."""
    async with EffectLog(store, lease=30, check_store=False) as log:
        runs = await log.enqueue_many(crash_tasks.gathers, [(2,)] * 30)
        async with log.worker(name="A", concurrency=3), log.worker(name="B", concurrency=3):
            await asyncio.gather(*(run.result(timeout=20) for run in runs))
        records = await whole_records(log, limit=100)
    assert all(len(record.attempts) == 1 for record in records)
    assert {record.attempts[0].worker for record in records} == {"A", "B"}
    assert len(destination.requests()) == 60


async def test_killed_between_two_effects_it_resumes_at_the_third(
    store: str, destination: CountingDestination, spawn: Any
) -> None:
    """F032."""
    async with EffectLog(store, check_store=False) as log:
        run = await log.enqueue(crash_tasks.three_sync)
        first = spawn("--concurrency=1", pause_at="third")
        await asyncio.to_thread(first.wait_for, "reached third")
        while [str(effect.state) for effect in (await run.record()).effects] != ["completed"] * 2:
            await asyncio.sleep(0.001)
        await asyncio.to_thread(first.kill)
        spawn("--concurrency=1")
        assert await run.result(timeout=10) == ["done:one", "done:two", "done:three"]
    assert [request.operation for request in destination.requests()] == ["one", "two", "three"]


@pytest.mark.parametrize("seed", range(4))
async def test_side_by_side_effects_are_replayed_in_any_order_with_their_own_values(
    store: str, destination: CountingDestination, spawn: Any, seed: int
) -> None:
    """F114: killed at random, resumed in another order.

    What was recorded as completed is never sent again.
    """
    chance = random.Random(seed)
    async with EffectLog(store, check_store=False) as log:
        run = await log.enqueue(crash_tasks.gathers, 8)
        first = spawn()
        await asyncio.to_thread(destination.wait_for_requests, chance.randrange(1, 8))
        await asyncio.to_thread(first.kill)
        before = {effect.key: effect for effect in (await run.record()).effects}
        async with log.worker(name="B"):
            assert await run.result(timeout=10) == [f"done:n{number}" for number in range(8)]
        record = await run.record()
    for effect in record.effects:
        known = before.get(effect.key)
        if known is not None and known.state == "completed":
            assert (effect.requests, effect.attempt) == (known.requests, 1)
    assert len(destination.effects()) == 8
