"""The lease outlives whatever user code does to its loop and its threads, or its loss is noticed and said."""

import asyncio
from typing import Any

import crash_tasks
import pytest
from support.whole_records import whole_records

from effectlog import EffectLog
from effectlog.testing.destinations import CountingDestination

LEASE = 0.3
KEPT = 1.0
"""A lease that is to be kept: what else the machine does must not take a heartbeat of it by itself."""


@pytest.mark.paced
@pytest.mark.parametrize(
    ("task", "arguments", "requests"),
    [
        (crash_tasks.blocks_its_loop, (3 * KEPT,), 1),
        (crash_tasks.fills_the_default_executor, (40, 0.3), 1),
    ],
    ids=["loop", "executor"],
)
async def test_a_blocked_loop_or_executor_loses_no_lease(
    store: str, destination: CountingDestination, spawn: Any, task: Any, arguments: Any, requests: int
) -> None:
    """F001, F004, F006, S2: another worker idles on the store all the time and never starts the run."""
    async with EffectLog(store, lease=KEPT, check_store=False) as log:
        run = await log.enqueue(task, *arguments)
        first = spawn(f"--lease={KEPT}")
        await asyncio.to_thread(first.wait_for, "blocking")
        async with log.worker(name="B"):
            await run.result(timeout=20)
        record = await run.record()
    assert [(attempt.worker, attempt.outcome) for attempt in record.attempts] == [("A", "succeeded")]
    assert len(destination.requests()) == requests
    assert record.effects[0].requests == 1


@pytest.mark.paced
async def test_a_lease_lost_to_the_interpreter_lock_is_noticed_and_said(
    store: str, destination: CountingDestination, spawn: Any
) -> None:
    """F002: nothing of the process runs, so the lease is lost.

    Its late result is not stored, and the log says why.
    """
    async with EffectLog(store, lease=LEASE, check_store=False) as log:
        run = await log.enqueue(crash_tasks.holds_the_interpreter, 4 * LEASE)
        first = spawn(f"--lease={LEASE}")
        await asyncio.to_thread(first.wait_for, "blocking")
        async with log.worker(name="B"):
            holding = asyncio.create_task(asyncio.to_thread(first.wait_for, "let go"))
            while len((await run.record()).attempts) == 1:
                await asyncio.sleep(0.01)
            assert not holding.done()
            await run.result(timeout=20)
        await holding
        other = await log.enqueue(crash_tasks.one_async, "keyed")
        await other.result(timeout=10)  # By A, so it has dealt with its loss.
        record = await run.record()
    assert [(a.worker, a.outcome) for a in record.attempts] == [("A", "expired"), ("B", "succeeded")]
    assert len(destination.effects_for("greedy")) == 1
    assert record.effects[0].attempt == 2


@pytest.mark.paced
async def test_two_hundred_runs_at_once_keep_their_leases(
    store: str, destination: CountingDestination
) -> None:
    """F019, scaled to a test: many leases of one worker, all renewed in one command."""
    async with EffectLog(store, lease=2.0, check_store=False) as log:
        runs = await log.enqueue_many(crash_tasks.fills_the_default_executor, [(1, 0.02)] * 200)
        async with log.worker(concurrency=200), log.worker(name="idle", concurrency=200):
            await asyncio.gather(*(run.result(timeout=30) for run in runs))
        records = await whole_records(log, limit=500)
    assert all(len(record.attempts) == 1 for record in records)
    assert len(destination.requests()) == 200
