"""SIGKILL at every boundary of an effect, in sync and async tasks, under each declared answer to doubt."""

import asyncio
import time
from typing import Any, NamedTuple

import crash_tasks
import pytest

from effectlog import Applied, EffectLog, RunHeld
from effectlog.testing.destinations import CountingDestination


class Expected(NamedTuple):
    requests: int
    """Requests that reached the destination."""
    announced: int
    """Requests that the journal says were or may have been made."""
    effects: int


NEVER_SENT = Expected(1, 1, 1)
ANNOUNCED = Expected(1, 2, 1)
SENT_TWICE = Expected(2, 2, 2)
SENT_TWICE_KEYED = Expected(2, 2, 1)
REPLAYED = Expected(1, 1, 1)

MATRIX = [
    ("before started", "keyed", NEVER_SENT),
    ("before started", "hold", NEVER_SENT),
    ("after started", "bare", ANNOUNCED),
    ("before call", "keyed", ANNOUNCED),
    ("accepted", "keyed", SENT_TWICE_KEYED),
    ("accepted", "bare", SENT_TWICE),
    ("before completed", "keyed", SENT_TWICE_KEYED),
    ("before completed", "bare", SENT_TWICE),
    ("after completed", "bare", REPLAYED),
    ("after completed", "hold", REPLAYED),
    ("after effect", "hold", REPLAYED),
    ("before end", "bare", REPLAYED),
]
FORMS = [crash_tasks.one_sync, crash_tasks.one_async]
LEASE = 30.0


async def killed_at(point: str, spawn: Any) -> float:
    """A worker claims what is enqueued and is killed at the point; gives when."""
    first = spawn(f"--lease={LEASE}", pause_at=point)
    await asyncio.to_thread(first.wait_for, f"reached {point}")
    if point == "after effect" and "durable completed" not in first.lines:
        await asyncio.to_thread(first.wait_for, "durable completed")
    return await asyncio.to_thread(first.kill)


@pytest.mark.parametrize("task", FORMS, ids=["sync", "async"])
@pytest.mark.parametrize(("point", "policy", "expected"), MATRIX)
async def test_killed_and_taken_over(
    store: str,
    destination: CountingDestination,
    spawn: Any,
    task: Any,
    point: str,
    policy: str,
    expected: Expected,
) -> None:
    async with EffectLog(store, lease=LEASE, check_store=False) as log:
        run = await log.enqueue(task, policy)
        killed = await killed_at(point, spawn)
        async with log.worker(name="B"):
            assert await run.result(timeout=10) == "done:one"
            took = time.monotonic() - killed
        record = await run.record()
    assert len(destination.requests()) == expected.requests
    assert len(destination.effects()) == expected.effects
    assert [attempt.outcome for attempt in record.attempts] == ["expired", "succeeded"]
    assert record.attempts[1].worker == "B"
    (effect,) = record.effects
    assert (effect.state, effect.requests) == ("completed", expected.announced)
    assert effect.result == record.result == "done:one"
    # How fast it is stands in the benchmarks.
    assert took < LEASE / 3, f"takeover took {took:.3f} s with a lease of {LEASE} s"


@pytest.mark.parametrize("task", FORMS, ids=["sync", "async"])
@pytest.mark.parametrize(
    ("point", "requests"),
    [("after started", 0), ("before call", 0), ("accepted", 1), ("before completed", 1)],
)
async def test_killed_inside_a_hold_effect_waits_for_a_decision(
    store: str, destination: CountingDestination, spawn: Any, task: Any, point: str, requests: int
) -> None:
    async with EffectLog(store, lease=LEASE, check_store=False) as log:
        run = await log.enqueue(task, "hold")
        await killed_at(point, spawn)
        async with log.worker(name="B"):
            with pytest.raises(RunHeld):
                await run.result(timeout=10)
            held = await run.record()
            await log.resolve(run.id, "send:one", Applied("decided"), by="tester")
            assert await run.result(timeout=10) == "decided"
        record = await run.record()
    assert len(destination.requests()) == len(destination.effects()) == requests
    assert held.state == "held"
    assert held.effects[0].in_doubt
    assert [attempt.outcome for attempt in held.attempts] == ["expired", "held"]
    assert [attempt.outcome for attempt in record.attempts] == ["expired", "held", "succeeded"]
    assert record.effects[0].requests == 1
    assert record.effects[0].resolved_by == "tester"


async def test_killed_inside_a_hold_effect_with_no_attempt_left_is_held_not_failed(
    store: str, destination: CountingDestination, spawn: Any
) -> None:
    async with EffectLog(store, lease=LEASE, check_store=False) as log:
        run = await log.enqueue(crash_tasks.once, "hold")
        await killed_at("accepted", spawn)
        async with log.worker():
            with pytest.raises(RunHeld):
                await run.result(timeout=10)
            await log.resolve(run.id, "send:one", Applied("decided"), by="tester")
            assert await run.result(timeout=10) == "decided"
    assert len(destination.requests()) == 1
