"""Cancelled, timed out, overrun: what was returned is recorded, what was not is in doubt, and nobody is misled."""

import asyncio
import threading
import time
from typing import Any

import pytest
from support.executing import executed, outcomes, states

from effectlog import EffectLog, EffectLogWarning, Retry, current_attempt, durable_task, effect

calls: list[str] = []
entered = threading.Event()
leave = threading.Event()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()
    entered.clear()
    leave.clear()


@effect(key="breaks")
async def breaks_its_connection() -> str:
    calls.append("breaks")
    if len(calls) == 1:
        raise asyncio.CancelledError
    return "fine"


@durable_task(retry=Retry(max_attempts=3, delay=0))
async def on_a_broken_connection() -> str:
    return await breaks_its_connection()


async def test_a_librarys_own_cancelled_error_is_an_error_of_the_attempt(log: EffectLog) -> None:
    """F051: nobody cancelled anything, so it is retried like another failure."""
    record = await executed(log, on_a_broken_connection)
    assert outcomes(record) == ["error", "succeeded"]
    assert record.result == "fine"
    assert record.effects[0].requests == 2
    error = record.attempts[0].error
    assert error is not None
    assert "CancelledError" in error.type
    assert "breaks_its_connection" in error.traceback


@effect(key="hangs", timeout=0.05, in_doubt="hold")
async def hangs() -> str:
    calls.append("hangs")
    await asyncio.Event().wait()
    return "never"


@durable_task(retry=Retry(max_attempts=3, delay=0))
async def waits_for_one_that_hangs() -> str:
    with pytest.raises(TimeoutError, match="unknown"):
        await hangs()
    return "went on"


async def test_an_async_effect_is_cancelled_at_its_timeout_and_in_doubt(log: EffectLog) -> None:
    record = await executed(log, waits_for_one_that_hangs)
    assert record.state == "held"
    assert record.effects[0].in_doubt
    assert record.effects[0].error is not None
    assert "timeout=0.05" in record.effects[0].error.message
    assert calls == ["hangs"]


@effect(key="late", timeout=0.02)
async def answers_late() -> str:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "late"
    return "never"


@durable_task
async def takes_a_late_answer() -> str:
    return await answers_late()


async def test_a_value_returned_after_the_timeout_is_a_value(log: EffectLog) -> None:
    record = await executed(log, takes_a_late_answer)
    assert record.result == "late"
    assert states(record) == {"late": "completed"}


@effect(key="overrun", timeout=0.01)
def overruns() -> str:
    time.sleep(0.03)
    return "done"


@durable_task(timeout=0.01)
async def never_awaits() -> str:
    time.sleep(0.03)
    return "done"


@durable_task
def calls_overrun() -> str:
    return overruns()


@pytest.mark.parametrize(("task", "what"), [(calls_overrun, "sync effect"), (never_awaits, "never_awaits")])
async def test_what_cannot_be_interrupted_is_reported_and_its_value_kept(
    log: EffectLog, task: Any, what: str
) -> None:
    """F057: even where warnings are errors, the value that came late is not lost for it."""
    record = await executed(log, task)
    assert record.result == "done"
    assert outcomes(record) == ["succeeded"]


async def test_an_overrun_is_a_warning_with_the_real_duration(log: EffectLog) -> None:
    with pytest.warns(EffectLogWarning, match=r"overruns took (0\.0[3-9]|0\.[1-9]|[1-9]).*timeout=0\.01"):
        await executed(log, calls_overrun)
    with pytest.warns(EffectLogWarning, match=r"never_awaits took (0\.0[3-9]|0\.[1-9]|[1-9]).*timeout=0\.01"):
        await executed(log, never_awaits)


@effect(key="given up")
async def given_up() -> str:
    calls.append("given up")
    entered.set()
    await asyncio.Event().wait()
    return "never"


@durable_task
async def gives_up_waiting() -> str:
    calling = asyncio.ensure_future(given_up())
    while not entered.is_set():
        await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(calling, 0.05)
    return "went on"


async def test_a_callers_timeout_leaves_the_effect_in_doubt(log: EffectLog) -> None:
    record = await executed(log, gives_up_waiting)
    assert record.result == "went on"
    assert record.effects[0].in_doubt


@effect(key="quick")
async def quick() -> str:
    calls.append("quick")
    return "quick"


@durable_task
async def cancelled_before_the_call() -> list[Any]:
    first = asyncio.create_task(quick())
    await asyncio.sleep(0)  # It hands in its *started* record and waits for it.
    first.cancel()
    await asyncio.wait({first})
    return [first.cancelled(), await quick()]


async def test_cancelled_while_its_started_record_is_written_it_was_not_called(log: EffectLog) -> None:
    record = await executed(log, cancelled_before_the_call)
    assert record.result == [True, "quick"]
    assert calls == ["quick"]
    assert states(record) == {"quick": "completed"}
    assert record.effects[0].requests == 1, "the one that was never made counts for none"


@durable_task(timeout=0.1, retry=Retry(max_attempts=2, delay=0))
async def times_out() -> str:
    if current_attempt().number == 1:
        await given_up()
    return "second"


@pytest.mark.paced
async def test_a_tasks_timeout_interrupts_its_effect_and_counts_as_an_attempt(log: EffectLog) -> None:
    record = await executed(log, times_out)
    assert outcomes(record) == ["timed_out", "succeeded"]
    assert record.effects[0].in_doubt


@effect(key="sync slow")
def sync_slow() -> str:
    entered.set()
    leave.wait(20)
    return "returned"


@durable_task
async def cancelled_in_async() -> str:
    return await given_up()


@durable_task
def cancelled_in_sync() -> str:
    return sync_slow() + sync_slow_too()


@effect(key="too")
def sync_slow_too() -> str:
    calls.append("too")
    return "too"


@durable_task
async def cancelled_in_background() -> str:
    task = asyncio.create_task(given_up())
    while not entered.is_set():
        await asyncio.sleep(0)
    try:
        await asyncio.Event().wait()
    finally:
        assert not task.done()
    return "never"


@pytest.mark.parametrize(
    "task", [cancelled_in_async, cancelled_in_background], ids=lambda task: task.__name__
)
async def test_cancelling_interrupts_an_async_effect(log: EffectLog, task: Any) -> None:
    run = await log.enqueue(task)
    async with log.worker():
        await asyncio.to_thread(entered.wait, 20)
        await run.cancel()
        async with asyncio.timeout(20):
            while (record := await run.record()).state != "cancelled":
                await asyncio.sleep(0.01)
    assert outcomes(record) == ["cancelled"]
    assert record.effects[0].in_doubt
    assert calls == ["given up"]


async def test_cancelling_lets_a_sync_effect_return_and_starts_no_other(log: EffectLog) -> None:
    run = await log.enqueue(cancelled_in_sync)
    async with log.worker():
        await asyncio.to_thread(entered.wait, 20)
        await run.cancel()
        leave.set()
        async with asyncio.timeout(20):
            while (record := await run.record()).state != "cancelled":
                await asyncio.sleep(0.01)
    assert states(record) == {"sync slow": "completed"}
    assert record.effects[0].result == "returned"
    assert calls == []


@effect(key="fails:{n}")
def fails(n: int) -> None:
    entered.set()
    leave.wait(20)
    raise OSError("retryable")


@durable_task
def fails_while_cancelled() -> None:
    fails(1)


async def test_an_error_before_the_cancel_is_noticed_ends_cancelled(log: EffectLog) -> None:
    """F049."""
    run = await log.enqueue(fails_while_cancelled)
    after = await log.enqueue(takes_a_late_answer)
    async with log.worker():
        await asyncio.to_thread(entered.wait, 20)
        await run.cancel()
        leave.set()
        async with asyncio.timeout(20):
            while (record := await run.record()).state != "cancelled":
                await asyncio.sleep(0.01)
        assert await after.result(timeout=20) == "late"
    assert outcomes(record) == ["cancelled"]


@effect(key="long", timeout=0.85)
async def long_effect() -> float:
    calls.append("called")
    return time.monotonic()


@durable_task
async def waits_until_the_lease_is_short(until: float) -> float:
    await asyncio.sleep(until)
    return await long_effect()


@pytest.mark.paced
async def test_an_effect_that_does_not_fit_the_lease_waits_for_a_renewal(
    log: EffectLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from effectlog.worker.owner import Owner

    renewals: list[float] = []
    renew = Owner._renew

    async def counted(self: Owner) -> None:
        renewals.append(time.monotonic())
        await renew(self)

    monkeypatch.setattr(Owner, "_renew", counted)
    async with EffectLog(log._engine.store.name, lease=1.0, heartbeat=0.5, check_store=False) as short:
        run = await short.enqueue(waits_until_the_lease_is_short, 0.1)
        async with short.worker():
            called = await run.result(timeout=20)
    assert calls == ["called"]
    assert renewals, "the effect started without the renewal it needed"
    assert renewals[0] < called
    assert len(renewals) <= 2


@durable_task
def cancel_race() -> str:
    return "done"


async def test_cancel_and_completion_race_to_one_terminal_state(log: EffectLog) -> None:
    """F054: ``cancel`` says which happened, and nothing changes afterwards."""
    runs = await log.enqueue_many(cancel_race, [() for _ in range(200)])
    async with log.worker(concurrency=20):
        told = await asyncio.gather(*(run.cancel() for run in runs))
        async with asyncio.timeout(20):
            while [record for record in await log.list_runs(limit=500) if record.finished_at is None]:
                await asyncio.sleep(0.01)
    records = {record.id: record for record in await log.list_runs(limit=500)}
    for run, state in zip(runs, told, strict=True):
        assert records[run.id].state in ("succeeded", "cancelled")
        if state != "running":
            assert records[run.id].state == state
