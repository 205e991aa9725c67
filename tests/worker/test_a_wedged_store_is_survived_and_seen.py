"""The store cannot be written for a while: leases are kept by trying again, claiming resumes, and it can be seen."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from typing import TYPE_CHECKING

import pytest
from worker_app import quick

from effectlog import AttemptOutcome, EffectLog, RunState, durable_task
from effectlog.model import ErrorInfo
from effectlog.store import commands as c

if TYPE_CHECKING:
    from support.worker_processes import Field


@durable_task(name="naps through it")
async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "slept"


def _blocker(field: Field) -> sqlite3.Connection:
    connection = sqlite3.connect(field.db, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    return connection


@pytest.mark.paced
async def test_a_store_that_is_away_for_half_a_lease_costs_nothing(field: Field) -> None:
    async with EffectLog(field.db, lease=2.0) as log, EffectLog(field.db, lease=2.0) as peer:
        async with log.worker():
            run = await log.enqueue(nap, 3.0)
            while (await run.record()).state is not RunState.RUNNING:
                await asyncio.sleep(0.005)
            async with peer.worker():
                blocker = _blocker(field)
                await asyncio.sleep(1.0)
                blocker.close()
                assert await run.result(10) == "slept"
        assert len((await run.record()).attempts) == 1


async def test_a_worker_that_cannot_claim_is_alive_and_says_so(field: Field, log: EffectLog) -> None:
    engine = log.administration.engine
    store = engine.store
    async with EffectLog(field.db) as working, working.worker(name="w"):
        await (await working.enqueue(quick, "a")).result(10)
        while not (rows := await engine.read(store.workers())) or rows[0].claimed_at is None:
            await asyncio.sleep(0.02)
        blocker = _blocker(field)
        # It is alive by the operating system's word, though it can't write a word itself.
        assert await engine.read(store.liveness.dead(frozenset({rows[0].owner}))) == frozenset()
        waiting = asyncio.ensure_future(log.enqueue(quick, "b"))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        blocker.close()
        begun = time.monotonic()
        assert await (await waiting).result(10) == "b"
        assert time.monotonic() - begun < 10


async def test_a_renewal_or_an_end_that_comes_too_late_changes_nothing(field: Field, log: EffectLog) -> None:
    """What an owner sends after it lost the run is refused, whatever order it arrives in."""
    engine = log.administration.engine
    run = await log.enqueue(quick, "a")
    claim = c.Claim("first", "first", 0.1, (c.TaskLimit(("quick",)),), 1, run_id=run.id)
    await engine.commit(claim)
    await asyncio.sleep(0.15)
    async with log.worker():
        assert await run.result(10) == "a"
    late = c.Fence(run.id, 1)
    renewed, ended, failed = await engine.commit(
        c.Renew("first", 30.0, (late,)),
        c.EndAttempt(late, AttemptOutcome.SUCCEEDED, RunState.SUCCEEDED, result=b'"other"'),
        c.EndAttempt(late, AttemptOutcome.ERROR, RunState.FAILED, error=ErrorInfo("E", "late")),
    )
    assert isinstance(renewed, c.Renewed)
    assert renewed.lost == {run.id}
    assert isinstance(ended, c.Refused)
    assert isinstance(failed, c.Refused)
    record = await run.record()
    assert (record.state, record.result) == (RunState.SUCCEEDED, "a")
    assert [attempt.outcome for attempt in record.attempts] == [
        AttemptOutcome.EXPIRED,
        AttemptOutcome.SUCCEEDED,
    ]


@pytest.mark.paced
async def test_lateness_is_never_recorded_as_failure(field: Field) -> None:
    async with EffectLog(field.db, lease=0.4) as log, EffectLog(field.db, lease=0.4) as peer:
        async with log.worker():
            run = await log.enqueue(nap.with_options(delay=0.0), 2.0)
            while (await run.record()).state is not RunState.RUNNING:
                await asyncio.sleep(0.005)
            async with peer.worker():
                assert await run.result(10) == "slept"
        record = await run.record()
    assert (record.state, len(record.attempts), record.error) == (RunState.SUCCEEDED, 1, None)
