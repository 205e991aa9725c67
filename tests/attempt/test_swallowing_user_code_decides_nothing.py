"""How an attempt ends is decided from what happened, not from what user code lets through (design 4.9)."""

import asyncio
import contextlib
import threading
from typing import Any

import pytest
import tenacity
from support.executing import executed, outcomes, states

from effectlog import Applied, EffectLog, NotApplied, Retry, Unknown, current_attempt, durable_task, effect

calls: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


@effect(key="mail", in_doubt="hold")
def mail() -> str:
    calls.append("mail")
    raise TimeoutError("no answer")


@effect(key="amail", in_doubt="hold")
async def amail() -> str:
    calls.append("amail")
    raise TimeoutError("no answer")


@effect(key="other:{n}")
async def other(n: int) -> int:
    calls.append(f"other {n}")
    await asyncio.sleep(0.01)
    return n


@durable_task(retry=Retry(max_attempts=3, delay=0))
def swallows() -> str:
    with contextlib.suppress(BaseException):
        mail()
    return "fine"


@durable_task(retry=Retry(max_attempts=3, delay=0))
def swallows_twice() -> str:
    for _ in range(3):
        with contextlib.suppress(BaseException):
            mail()
    return "fine"


@durable_task(retry=Retry(max_attempts=3, delay=0))
async def swallows_in_gather() -> str:
    await asyncio.gather(amail(), amail(), other(1), return_exceptions=True)
    return "fine"


@durable_task(retry=Retry(max_attempts=3, delay=0))
async def raises_a_group() -> str:
    async with asyncio.TaskGroup() as group:
        group.create_task(amail())
        group.create_task(other(1))
    return "fine"


@durable_task(retry=Retry(max_attempts=3, delay=0))
def raises_another() -> str:
    try:
        mail()
    except Exception:
        raise ValueError("another") from None
    return "fine"


@durable_task(retry=Retry(max_attempts=1))
def last_attempt() -> str:
    return mail()


@durable_task(retry=Retry(max_attempts=3, delay=0))
def tenacity_above() -> str:
    return tenacity.retry(stop=tenacity.stop_after_attempt(4), wait=tenacity.wait_none(), reraise=True)(
        mail
    )()


@durable_task(retry=Retry(max_attempts=3, delay=0))
def tenacity_above_everything() -> str:
    return tenacity.retry(
        stop=tenacity.stop_after_attempt(4),
        retry=tenacity.retry_if_exception_type(BaseException),
        reraise=True,
    )(mail)()


@durable_task(retry=Retry(max_attempts=3, delay=0))
async def tenacity_above_async() -> str:
    async for attempt in tenacity.AsyncRetrying(stop=tenacity.stop_after_attempt(4), reraise=True):
        with attempt:
            return await amail()
    return "fine"


@durable_task(retry=Retry(max_attempts=3, delay=0))
async def in_thread() -> str:
    with contextlib.suppress(BaseException):
        await asyncio.to_thread(mail)
    return "fine"


@durable_task(retry=Retry(max_attempts=3, delay=0))
def in_own_thread() -> str:
    def quietly() -> None:
        with contextlib.suppress(BaseException):
            mail()

    thread = threading.Thread(target=current_attempt().bind(quietly))
    thread.start()
    thread.join()
    return "fine"


@durable_task(retry=Retry(max_attempts=3, delay=0))
async def exits() -> str:
    try:
        await amail()
    except TimeoutError:
        raise SystemExit(3) from None
    return "fine"


HELD = [
    swallows,
    swallows_twice,
    swallows_in_gather,
    raises_a_group,
    raises_another,
    last_attempt,
    tenacity_above,
    tenacity_above_everything,
    tenacity_above_async,
    in_thread,
    in_own_thread,
    exits,
]


@pytest.mark.parametrize("task", HELD, ids=lambda task: task.__name__)
async def test_a_hold_effect_in_doubt_holds_the_run_with_one_request(log: EffectLog, task: Any) -> None:
    record = await executed(log, task)
    assert record.state == "held"
    assert outcomes(record) == ["held"]
    assert len([call for call in calls if call != "other 1"]) == 1
    doubt = next(effect for effect in record.effects if effect.in_doubt)
    await log.resolve(record.id, doubt.key, Applied("decided"), by="me")
    run = await log.get_run(record.id)
    async with log.worker():
        assert await run.result(timeout=20) == ("fine" if "fine" in _returns(task) else "decided")
    assert len([call for call in calls if call != "other 1"]) == 1


def _returns(task: Any) -> tuple[Any, ...]:
    """A task that returns what the effect gives returns the decision once it is replayed."""
    passes_on = {"last_attempt", "tenacity_above", "tenacity_above_everything", "tenacity_above_async"}
    return () if task.__name__ in passes_on else ("fine",)


@effect(key="below", in_doubt="hold")
@tenacity.retry(stop=tenacity.stop_after_attempt(3), wait=tenacity.wait_none(), reraise=True)
def tenacity_below() -> str:
    calls.append("below")
    if len(calls) < 3:
        raise TimeoutError("no answer")
    return "third"


@durable_task
def retries_inside() -> str:
    return tenacity_below()


async def test_what_retries_below_the_decorator_is_one_request_by_declaration(log: EffectLog) -> None:
    record = await executed(log, retries_inside)
    assert record.result == "third"
    assert len(calls) == 3
    assert record.effects[0].requests == 1


def not_told() -> Unknown:
    return Unknown(retry_after=0.01)


@effect(key="asked", in_doubt=not_told, lookup_budget=0.05)
def asked() -> str:
    calls.append("asked")
    raise TimeoutError("no answer")


@durable_task(retry=Retry(max_attempts=2, delay=0))
def asks() -> str:
    return asked()


@durable_task
def asks_and_swallows() -> str:
    with contextlib.suppress(TimeoutError):
        asked()
    return "fine"


@pytest.mark.parametrize("task", [asks, asks_and_swallows], ids=lambda task: task.__name__)
async def test_a_look_up_that_cannot_tell_holds_the_run(log: EffectLog, task: Any) -> None:
    record = await executed(log, task)
    assert record.state == "held"
    assert calls == ["asked"]


def found_nothing() -> NotApplied:
    return NotApplied()


@effect(key="budgeted", in_doubt="hold", retry=Retry(max_attempts=5, delay=0.0))
def retried_hold() -> str:
    calls.append("x")
    raise TimeoutError("no answer")


@durable_task
def retries_a_hold() -> str:
    return retried_hold()


@effect(key="resent", retry=Retry(max_attempts=5, delay=0.0))
def retried_resend() -> str:
    calls.append("x")
    if len(calls) < 3:
        raise TimeoutError("no answer")
    return "third"


@durable_task
def retries_a_resend() -> str:
    return retried_resend()


async def test_retry_of_an_effect_respects_its_policy(log: EffectLog) -> None:
    record = await executed(log, retries_a_hold)
    assert (record.state, len(calls)) == ("held", 1)
    calls.clear()
    record = await executed(log, retries_a_resend)
    assert (record.result, len(calls), record.effects[0].requests) == ("third", 3, 3)


@durable_task(retry=Retry(max_attempts=2, delay=0))
async def forgets() -> str:
    other(1)
    return "fine"


@durable_task(retry=Retry(max_attempts=2, delay=0))
def forgets_in_sync() -> str:
    other(1)
    return "fine"


@pytest.mark.parametrize("task", [forgets, forgets_in_sync], ids=lambda task: task.__name__)
async def test_an_effect_that_is_never_awaited_fails_the_attempt_and_is_named(
    log: EffectLog, task: Any
) -> None:
    record = await executed(log, task)
    assert record.state == "failed"
    assert record.error is not None
    assert "other" in record.error.message
    assert "await" in record.error.message
    assert calls == []


@durable_task
async def changes_its_mind() -> str:
    task = asyncio.create_task(other(1))
    task.cancel()
    await asyncio.wait({task})
    other(2).close()
    return "fine"


async def test_an_effect_cancelled_before_its_first_step_is_not_a_forgotten_one(log: EffectLog) -> None:
    record = await executed(log, changes_its_mind)
    assert record.result == "fine"
    assert record.effects == ()
    assert calls == []


@durable_task
async def leaves_one_running() -> str:
    task = asyncio.create_task(other(1))
    while "other 1" not in calls:
        await asyncio.sleep(0)
    task.add_done_callback(lambda _: calls.append("done"))
    return "fine"


async def test_a_request_that_the_body_left_under_way_is_waited_for(log: EffectLog) -> None:
    record = await executed(log, leaves_one_running)
    assert record.result == "fine"
    assert states(record) == {"other:1": "completed"}


@durable_task(retry=Retry(max_attempts=2, delay=0))
async def exits_at_once() -> str:
    raise SystemExit(3)


async def test_exiting_ends_the_attempt_and_not_the_worker(log: EffectLog) -> None:
    record = await executed(log, exits_at_once)
    assert outcomes(record) == ["error", "error"]
    assert record.error is not None
    assert "sys.exit(3)" in record.error.message


@durable_task(retry=Retry(max_attempts=2, delay=0))
def exits_in_sync() -> str:
    raise SystemExit(3)


async def test_exiting_a_sync_body_is_an_error_too(log: EffectLog) -> None:
    record = await executed(log, exits_in_sync)
    assert outcomes(record) == ["error", "error"]
