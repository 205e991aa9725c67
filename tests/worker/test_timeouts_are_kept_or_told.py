"""Async code is stopped on time; sync code, which cannot be, is reported with the time it really took."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from support.whole_records import whole_records

from effectlog import (
    AttemptOutcome,
    EffectLog,
    EffectLogWarning,
    Retry,
    RunFailed,
    durable_task,
    effect,
)

if TYPE_CHECKING:
    from support.worker_processes import Field

    from effectlog import RunRecord

ONCE = Retry(max_attempts=1)


@effect(key="async effect", timeout=0.2)
async def async_effect() -> None:
    await asyncio.sleep(10)


@effect(key="sync effect", timeout=0.1)
def sync_effect() -> str:
    time.sleep(0.3)
    return "took longer"


@durable_task(name="calls the async effect", retry=ONCE)
async def calls_async() -> None:
    await async_effect()


@durable_task(name="calls the sync effect", retry=ONCE)
def calls_sync() -> str:
    return sync_effect()


@durable_task(name="sleeps", timeout=0.2, retry=Retry(max_attempts=2, delay=0.0))
async def sleeps() -> None:
    await asyncio.sleep(10)


@durable_task(name="never awaits", timeout=0.1, retry=ONCE)
async def never_awaits() -> str:
    time.sleep(0.3)
    return "done"


@durable_task(name="sync body", timeout=0.1, retry=ONCE)
def sync_body() -> str:
    time.sleep(0.3)
    return "done"


@durable_task(name="sync body with a late effect", timeout=0.1, retry=ONCE)
def late_effect() -> str:
    time.sleep(0.3)
    return sync_effect()


async def test_an_async_effect_is_stopped_on_time_and_is_in_doubt(log: EffectLog) -> None:
    async with log.worker():
        run = await log.enqueue(calls_async)
        with pytest.raises(RunFailed, match="whether it happened is unknown"):
            await run.result(10)
    (record,) = (await run.record()).effects
    assert record.in_doubt
    attempt = (await run.record()).attempts[0]
    assert attempt.ended_at is not None
    assert 0.2 <= (attempt.ended_at - attempt.started_at).total_seconds() < 8.0


async def test_a_sync_effect_is_reported_and_its_result_kept(log: EffectLog) -> None:
    with pytest.warns(
        EffectLogWarning, match=r"sync effect .*sync_effect took (0\.[3-9]|[1-9])[\d.]* s with timeout=0\.1"
    ):
        async with log.worker():
            assert await (await log.enqueue(calls_sync)).result(10) == "took longer"


async def test_an_async_attempt_is_stopped_on_time_and_counts_as_one(log: EffectLog) -> None:
    async with log.worker():
        run = await log.enqueue(sleeps)
        with pytest.raises(RunFailed, match=r"timeout=0\.2"):
            await run.result(10)
    record = await run.record()
    assert [attempt.outcome for attempt in record.attempts] == [AttemptOutcome.TIMED_OUT] * 2
    for attempt in record.attempts:
        assert attempt.ended_at is not None
        assert 0.2 <= (attempt.ended_at - attempt.started_at).total_seconds() < 8.0


@pytest.mark.parametrize("task", [never_awaits, sync_body])
async def test_code_that_cannot_be_stopped_is_reported_with_its_real_duration(
    log: EffectLog, task: object
) -> None:
    with pytest.warns(EffectLogWarning, match=r"took (0\.[3-9]|[1-9])[\d.]* s with timeout=0\.1"):
        async with log.worker():
            assert await (await log.enqueue(task)).result(10) == "done"  # type: ignore[arg-type]


async def test_sync_code_past_its_timeout_starts_no_effect(log: EffectLog) -> None:
    async def execute() -> RunRecord:
        async with log.worker():
            run = await log.enqueue(late_effect)
            with pytest.raises(RunFailed):
                await run.result(10)
            return await run.record()

    with pytest.warns(EffectLogWarning, match=r"took (0\.[3-9]|[1-9])[\d.]* s with timeout=0\.1"):
        record = await execute()
    assert (record.effects, record.attempts[0].outcome) == ((), AttemptOutcome.TIMED_OUT)


@pytest.mark.paced
async def test_an_effect_waits_for_a_renewal_where_its_timeout_does_not_fit_the_lease(field: Field) -> None:
    left: list[float] = []

    @effect(key="needs time", timeout=0.5)
    async def needs_time() -> None:
        from effectlog.context import here_attempt

        attempt = here_attempt()
        assert attempt is not None
        left.append(attempt.lease_until - time.monotonic())

    @durable_task(name="late in its lease")
    async def late() -> None:
        await asyncio.sleep(0.55)
        await needs_time()

    # The next heartbeat would come too late by itself.
    async with EffectLog(field.db, lease=1.2, heartbeat=0.59) as log, log.worker():
        await (await log.enqueue(late)).result(10)
    assert left[0] >= 0.5 - 0.05


async def test_a_lease_that_cannot_be_renewed_starts_no_effect_that_may_outlast_it(field: Field) -> None:
    sent: list[int] = []

    @effect(key="needs time", timeout=0.4)
    async def needs_time() -> None:
        sent.append(1)

    @durable_task(name="cannot renew")
    async def cannot_renew() -> None:
        import sqlite3
        from contextlib import closing

        with closing(sqlite3.connect(field.db, isolation_level=None)) as blocker:
            blocker.execute("BEGIN IMMEDIATE")
            await asyncio.sleep(0.6)
            with pytest.raises(BaseException, match="no longer owns") as caught:
                await needs_time()
            blocker.execute("ROLLBACK")
        raise caught.value

    async with EffectLog(field.db, lease=0.9) as log, log.worker() as worker:
        await log.enqueue(cannot_renew)
        while True:
            records = await whole_records(log)
            if records[0].attempts and records[0].attempts[0].outcome is not None:
                break
            await asyncio.sleep(0.02)
        assert sent == []
        assert records[0].effects == ()
        await worker.release()
