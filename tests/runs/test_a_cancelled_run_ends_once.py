"""Cancelling: at once where nothing runs, by request where something does, and one terminal state in every race."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from support.whole_records import whole_records
from worker_app import poison, quick, slow

from effectlog import (
    AttemptOutcome,
    ConfigurationError,
    EffectLog,
    EffectState,
    Retry,
    RunCancelled,
    RunState,
    durable_task,
    effect,
)
from effectlog.store.protocol import RunFilter

if TYPE_CHECKING:
    from support.worker_processes import Field


@effect(key="wait")
async def wait_long() -> None:
    await asyncio.sleep(30)


@effect(key="quickly:{n}")
async def quickly(n: int) -> int:
    return n


@durable_task(name="waits")
async def waits() -> None:
    await wait_long()


@durable_task(name="instant")
async def instant(n: int) -> int:
    return await quickly(n)


async def _running(log: EffectLog, effects: int = 1) -> None:
    while True:
        records = await whole_records(log, state="running")
        if records and len(records[0].effects) >= effects:
            return
        await asyncio.sleep(0.005)


async def test_a_waiting_run_is_cancelled_at_once(log: EffectLog) -> None:
    now = await log.enqueue(instant, 1)
    later = await log.enqueue(instant.with_options(delay=60), 2)
    for run in (now, later):
        assert await run.cancel() is RunState.CANCELLED
        with pytest.raises(RunCancelled):
            await run.result(10)
        assert await run.cancel() is RunState.CANCELLED
    async with log.worker():
        assert await (await log.enqueue(instant, 3)).result(10) == 3
    assert (await now.record()).attempts == ()


async def test_a_running_effect_is_interrupted_at_once_and_its_doubt_is_visible(log: EffectLog) -> None:
    async with log.worker():
        run = await log.enqueue(waits)
        await _running(log)
        asked = time.monotonic()
        assert await run.cancel() is RunState.RUNNING
        with pytest.raises(RunCancelled):
            await run.result(10)
        assert time.monotonic() - asked < 8.0, "it waited for the next heartbeat"
    record = await run.record()
    assert [attempt.outcome for attempt in record.attempts] == [AttemptOutcome.CANCELLED]
    assert (record.effects[0].state, record.effects[0].in_doubt) == (EffectState.STARTED, True)


async def test_another_processs_worker_learns_with_its_next_heartbeat(field: Field, log: EffectLog) -> None:
    field.worker(lease=3.0)  # So a heartbeat a second.
    run = await log.enqueue(slow, "a", 30.0)
    field.wait_for(lambda all_: len(all_) == 1)
    asked = time.monotonic()
    assert await run.cancel() is RunState.RUNNING
    with pytest.raises(RunCancelled):
        await run.result(10)
    assert time.monotonic() - asked < 8.0, "it waited for the effect's end"
    assert await (await log.enqueue(quick, "still works")).result(10) == "still works"


async def test_sync_code_stops_at_its_next_effect_and_what_it_did_is_recorded(log: EffectLog) -> None:
    inside, go = threading.Event(), threading.Event()

    @effect(key="first")
    def first() -> str:
        inside.set()
        go.wait(10)
        return "done"

    @effect(key="second")
    def second() -> None:
        raise AssertionError("no effect starts after a cancellation")

    @durable_task(name="sync body with two effects")
    def body() -> None:
        first()
        try:
            second()
        except Exception:
            raise AssertionError("a control signal is no Exception") from None

    async with log.worker():
        run = await log.enqueue(body)
        await asyncio.to_thread(inside.wait, 10)
        assert await run.cancel() is RunState.RUNNING
        go.set()
        with pytest.raises(RunCancelled):
            await run.result(10)
    (effect_record,) = (await run.record()).effects
    assert (effect_record.state, effect_record.result) == (EffectState.COMPLETED, "done")


async def test_a_retryable_error_after_the_request_ends_cancelled_and_not_retried(log: EffectLog) -> None:
    inside, go = threading.Event(), threading.Event()

    @durable_task(name="raises late", retry=Retry(delay=0.0))
    def raises_late() -> None:
        inside.set()
        go.wait(10)
        raise ConnectionError("retry me")

    async with log.worker():
        run = await log.enqueue(raises_late)
        await asyncio.to_thread(inside.wait, 10)
        await run.cancel()
        go.set()
        with pytest.raises(RunCancelled):
            await run.result(10)
        assert len((await run.record()).attempts) == 1
        assert await (await log.enqueue(instant, 1)).result(10) == 1


async def _race(log: EffectLog, count: int) -> Counter[str]:
    """Cancel runs as they complete; what ``cancel`` said must agree with how each ended."""
    seen: Counter[str] = Counter()
    async with log.worker():
        for n in range(count):
            run = await log.enqueue(instant, n)
            for _ in range(n % 9):
                await asyncio.sleep(0.0004)
            said = await run.cancel()
            ended = await asyncio.gather(run.result(10), return_exceptions=True)
            won = "cancelled" if isinstance(ended[0], RunCancelled) else "completed"
            record = await run.record()
            assert record.state == (RunState.CANCELLED if won == "cancelled" else RunState.SUCCEEDED)
            assert said in (record.state, RunState.RUNNING), (said, record.state)
            assert len(record.attempts) <= 1
            seen[f"{said}, {won}"] += 1
    print(dict(seen))
    return seen


async def test_cancel_against_completion_gives_one_state_and_says_which(log: EffectLog) -> None:
    assert (await _race(log, 120)).total() == 120


@pytest.mark.long
async def test_a_thousand_cancels_against_completions(log: EffectLog) -> None:
    assert len(await _race(log, 1000)) > 2


async def test_sync_effects_cancelled_as_they_return_lose_no_thread(log: EffectLog) -> None:
    @effect(key="blink")
    def blink() -> None:
        time.sleep(0.001)

    @durable_task(name="blinks")
    def blinks() -> int:
        blink()
        return 1

    async with log.worker(concurrency=4):
        runs = await log.enqueue_many(blinks, [()] * 200)
        for run in runs:
            await run.cancel()
        ended = await asyncio.gather(*(run.result(20) for run in runs), return_exceptions=True)
        assert all(end == 1 or isinstance(end, RunCancelled) for end in ended)
        normal = await log.enqueue_many(blinks, [()] * 20)
        assert await asyncio.gather(*(run.result(10) for run in normal)) == [1] * 20


async def test_a_run_that_kills_every_worker_can_be_cancelled(field: Field, log: EffectLog) -> None:
    run = await log.enqueue(poison, "poison")
    doomed = field.worker()
    assert doomed.wait() == 9
    # Its owner is dead, so nobody need be asked.
    assert await run.cancel() is RunState.CANCELLED
    field.worker()
    assert await (await log.enqueue(quick, "a")).result(10) == "a"
    record = await run.record()
    assert (record.state, len(record.attempts), record.attempts[0].outcome) == (
        RunState.CANCELLED,
        1,
        AttemptOutcome.EXPIRED,
    )
    assert sorted(field.whats()) == ["a", "poison"]


async def test_force_cancels_at_once_and_the_owner_stores_nothing_more(
    log: EffectLog, caplog: pytest.LogCaptureFixture
) -> None:
    release = asyncio.Event()

    @durable_task(name="stubborn")
    async def stubborn() -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            await release.wait()
        return "too late"

    async with log.worker():
        run = await log.enqueue(stubborn)
        while (await run.record()).state is not RunState.RUNNING:
            await asyncio.sleep(0.005)
        assert await run.cancel(force=True) is RunState.CANCELLED
        with pytest.raises(RunCancelled):
            await run.result(10)
        release.set()
    record = await run.record()
    assert (record.state, record.result) == (RunState.CANCELLED, None)
    assert "no longer owns its run" in caplog.text
    assert "cancelled or retried by force" in caplog.text
    assert "interpreter lock" not in caplog.text, "people are sent to look for what did not happen"


async def test_many_are_cancelled_and_retried_by_filter(log: EffectLog) -> None:
    runs = await log.enqueue_many(instant, [(n,) for n in range(700)])
    other = await log.enqueue(waits)
    cancelled = await log.cancel_runs(state="pending", task=instant)
    assert sorted(cancelled) == sorted(run.id for run in runs)
    assert (await other.record()).state is RunState.PENDING
    assert sorted(await log.retry_runs(state="cancelled")) == sorted(cancelled)
    assert len(await log.list_runs(state="pending", limit=1000)) == 701


async def test_a_bulk_action_goes_on_past_runs_that_are_purged_meanwhile(log: EffectLog) -> None:
    older = await log.enqueue_many(instant, [(n,) for n in range(600)])
    newer = await log.enqueue_many(instant, [(n,) for n in range(600)])
    for run in newer:
        await run.cancel()
    done: list[str] = []

    async def act(run_id: str) -> None:
        if len(done) == 499:
            # The page's last row, from which the next page would be asked for, is gone by then.
            assert await log.purge(0, "cancelled") == 600
            await log.enqueue_many(instant, [(n,) for n in range(10)])
        done.append(run_id)

    applied, refused = await log.administration.each(RunFilter(task="instant"), act)
    assert refused == {}
    assert applied == [run.id for run in (*newer[:99:-1], *older[::-1])]


async def test_a_list_goes_on_from_a_run_that_was_purged_and_from_nothing_that_is_no_run(
    log: EffectLog,
) -> None:
    runs = await log.enqueue_many(instant, [(n,) for n in range(5)])
    await runs[2].cancel()
    await log.purge(0)
    older = await log.list_runs(before=runs[2].id)
    assert [record.id for record in older] == [runs[1].id, runs[0].id]
    assert len(await log.cancel_runs(task=instant, before=runs[2].id)) == 2
    with pytest.raises(ConfigurationError, match="not a run's id"):
        await log.cancel_runs(task=instant, before="of somewhere")
