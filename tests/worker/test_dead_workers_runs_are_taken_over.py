"""A worker dies or is stopped: others take its runs over at once, or when its lease has ended and never before."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from support.worker_processes import completed
from worker_app import once, quick, slow, stays_once, two

from effectlog import AttemptOutcome, EffectLog, RunState

if TYPE_CHECKING:
    from support.worker_processes import Field, Process


@pytest.mark.timed
async def test_a_killed_worker_is_followed_within_a_tenth_of_a_second(field: Field, log: EffectLog) -> None:
    took = []
    for _ in range(2):
        field.worker()
    for n in range(5):
        run = await log.enqueue(two, f"run {n}", 0.2)
        (first,) = field.wait_for(lambda all_, n=n: f"run {n}:1" in [r.what for r in all_])[-1:]
        await completed(run, 1)
        killed = field.process(first.pid).kill()
        assert await run.result(10) == f"run {n}:2"
        record = await run.record()
        assert [attempt.outcome for attempt in record.attempts] == [
            AttemptOutcome.EXPIRED,
            AttemptOutcome.SUCCEEDED,
        ]
        began = record.attempts[1].started_at.timestamp() - time.time() + time.monotonic()
        took.append(began - killed)
        field.worker()
    print(f"taken over {', '.join(f'{seconds * 1000:.0f}' for seconds in took)} ms after the kill")
    # On a busy machine a commit alone may take as long.
    assert min(took) < 0.1, took
    assert sorted(took)[2] < 0.15, took
    assert [effect.requests for effect in record.effects] == [1, 1]


async def test_a_live_worker_takes_over_fifty_runs_of_a_killed_one(field: Field, log: EffectLog) -> None:
    doomed = field.worker()
    runs = await log.enqueue_many(stays_once, [(str(n),) for n in range(50)])
    field.worker()
    await asyncio.gather(*(completed(run, 1) for run in runs))
    doomed.kill()
    assert await asyncio.gather(*(run.result(20) for run in runs)) == [f"{n}:2" for n in range(50)]
    assert sorted(field.whats()) == sorted(f"{n}:{m}" for n in range(50) for m in (1, 2))


async def test_runs_of_the_only_worker_go_on_with_the_next_one(field: Field, log: EffectLog) -> None:
    doomed = field.worker()
    run = await log.enqueue(two, "a", 0.2)
    await completed(run, 1)
    doomed.kill()
    assert (await run.record()).state is RunState.RUNNING
    field.worker()
    assert await run.result(10) == "a:2"
    assert field.whats() == ["a:1", "a:2"]


def _stop_outside_transactions(field: Field, process: Process) -> None:
    """One that is stopped inside a transaction keeps SQLite's write lock, and then nobody can do anything."""
    while True:
        process.signal(signal.SIGSTOP)
        with closing(sqlite3.connect(field.db, timeout=0.2, isolation_level=None)) as db:
            try:
                db.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                process.signal(signal.SIGCONT)
                time.sleep(0.01)
            else:
                db.execute("ROLLBACK")
                return


@pytest.mark.timed
async def test_a_stopped_worker_is_followed_when_its_lease_ends_and_not_before(
    field: Field, log: EffectLog
) -> None:
    for _ in range(2):
        field.worker(lease=1.5)
    run = await log.enqueue(slow, "a", 1.2)
    (first,) = field.wait_for(lambda all_: len(all_) == 1)
    stopped = field.process(first.pid)
    _stop_outside_transactions(field, stopped)
    await asyncio.sleep(0.2)
    with closing(sqlite3.connect(field.db)) as db:
        ((expires,),) = db.execute("SELECT lease_expires FROM effectlog_runs").fetchall()
    assert expires > time.monotonic(), "the test was too slow to read the lease in time"
    second = field.wait_for(lambda all_: len(all_) == 2)[1]
    print(f"taken over {(second.at - expires) * 1000:.0f} ms after the lease had ended")
    assert 0 <= second.at - expires <= 0.5, second.at - expires
    stopped.signal(signal.SIGCONT)
    assert await run.result(10) == "a"
    record = await run.record()
    assert [attempt.outcome for attempt in record.attempts] == [
        AttemptOutcome.EXPIRED,
        AttemptOutcome.SUCCEEDED,
    ]
    assert await (await log.enqueue(quick, "still works")).result(10) == "still works"


async def test_an_interrupted_run_of_a_task_for_one_attempt_is_not_executed_again_by_anyone(
    field: Field, log: EffectLog
) -> None:
    doomed = field.worker()
    bystander = field.worker(tasks=["quick"])
    run = await log.enqueue(once, "a", 5.0)
    field.wait_for(lambda all_: len(all_) == 1)
    doomed.kill()
    while (await run.record()).state is RunState.RUNNING:
        await asyncio.sleep(0.01)
    # Whoever took it over need not have known the task; who does must not execute it.
    bystander.kill()
    field.worker()
    while not (record := await run.record()).dead_letter:
        assert record.state in (RunState.PENDING, RunState.RUNNING)
        await asyncio.sleep(0.01)
    assert record.error is not None
    assert "worker lost" in record.error.message
    assert field.whats() == ["a"]
