"""Danger: an exception is read as proof that it is none of, or a doubt is swallowed with the exception that made it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import stripe
import tenacity

from effectlog import (
    EffectFailed,
    EffectLog,
    Retry,
    RunFailed,
    current_attempt,
    durable_task,
    effect,
    operation_id,
)
from effectlog.clients.failures import CARD_DECLINED_STRIPE


class NotSentError(Exception):
    """The request never left."""


class DeclinedError(Exception):
    """The destination said no, for good."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(f"{code}: {why}")


class StolenError(DeclinedError):
    pass


LOST = ConnectionResetError("no answer")
NOT_SENT = NotSentError("refused")

script: list[Exception | str] = []
ids: list[str] = []


def request() -> str:
    ids.append(operation_id())
    step = script.pop(0)
    if isinstance(step, Exception):
        raise step
    return step


@pytest.fixture
def play() -> Callable[..., None]:
    def begin(*steps: Exception | str) -> None:
        script[:] = steps
        ids.clear()

    return begin


def declare(policy: Any, *, inside: bool) -> Any:
    @effect(
        key="send",
        name=f"lost/{policy}/{inside}",
        in_doubt=policy,
        not_applied=NotSentError,
        final=(DeclinedError,),
        retry=Retry(max_attempts=3, delay=0.0) if inside else None,
    )
    async def send() -> str:
        return request()

    return send


EFFECTS = {
    (policy, inside): declare(policy, inside=inside)
    for policy in ("hold", "resend")
    for inside in (False, True)
}


@durable_task(name="lost/once", retry=Retry(max_attempts=1))
async def once(policy: str, inside: bool) -> str:
    return await EFFECTS[policy, inside]()


@durable_task(name="lost/thrice", retry=Retry(max_attempts=3, delay=0.0))
async def thrice(policy: str, inside: bool) -> str:
    return await EFFECTS[policy, inside]()


@durable_task(name="lost/swallows", retry=Retry(max_attempts=1))
async def swallows(policy: str, inside: bool) -> str:
    try:
        return await EFFECTS[policy, inside]()
    except Exception:
        return "swallowed"


@durable_task(name="lost/gathers", retry=Retry(max_attempts=1))
async def gathers(policy: str, inside: bool) -> str:
    await asyncio.gather(EFFECTS[policy, inside](), return_exceptions=True)
    return "gathered"


@durable_task(name="lost/tenacious", retry=Retry(max_attempts=1))
async def tenacious(policy: str, inside: bool) -> str:
    retrying = tenacity.retry(stop=tenacity.stop_after_attempt(5), wait=tenacity.wait_none())
    result: str = await retrying(EFFECTS[policy, inside])()
    return result


@durable_task(name="lost/catches", retry=Retry(max_attempts=1))
async def catches() -> str:
    try:
        await EFFECTS["hold", False]()
    except StolenError as error:
        return f"{type(error).__name__}, {isinstance(error, EffectFailed)}: {error}"
    return "not reached"


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("policy", ["hold", "resend"])
async def test_proof_that_nothing_was_done_is_tried_again_under_any_policy(
    log: EffectLog, play: Any, policy: str, inside: bool
) -> None:
    play(NOT_SENT, NOT_SENT, "done")
    async with log.worker():
        run = await log.enqueue(once if inside else thrice, policy, inside)
        assert await run.result(timeout=20) == "done"
    record = await run.record()
    assert (len(ids), len(set(ids)), record.effects[0].requests) == (3, 1, 3)
    assert len(record.attempts) == (1 if inside else 3)


@pytest.mark.parametrize(
    "task", [once, thrice, swallows, gathers, tenacious], ids=lambda task: task.spec.name
)
@pytest.mark.parametrize("inside", [True, False])
async def test_a_lost_answer_is_held_whatever_the_code_around_it_does(
    log: EffectLog, play: Any, until: Any, task: Any, inside: bool
) -> None:
    play(LOST, "a second effect")
    async with log.worker():
        run = await log.enqueue(task, "hold", inside)
        record = await until(run, "held", "succeeded", "failed")
    assert record.state == "held"
    assert len(ids) == record.effects[0].requests == 1
    assert [attempt.outcome for attempt in record.attempts] == ["held"]
    assert record.effects[0].error.type == "ConnectionResetError"


@pytest.mark.parametrize("inside", [True, False])
async def test_a_lost_answer_is_resent_with_the_same_id_where_that_is_declared(
    log: EffectLog, play: Any, inside: bool
) -> None:
    play(LOST, LOST, "done")
    async with log.worker():
        run = await log.enqueue(once if inside else thrice, "resend", inside)
        assert await run.result(timeout=20) == "done"
    assert (len(ids), len(set(ids))) == (3, 1)


async def test_one_that_ends_by_running_out_of_tries_shows_its_doubt(
    log: EffectLog, play: Any, until: Any
) -> None:
    play(LOST, LOST, LOST)
    async with log.worker():
        run = await log.enqueue(once, "resend", True)
        record = await until(run, "failed", "held")
    assert record.state == "failed"
    assert record.effects[0].in_doubt
    assert len(ids) == 3


async def test_proof_about_a_second_request_is_none_about_the_first(
    log: EffectLog, play: Any, until: Any
) -> None:
    play(LOST, NOT_SENT, NOT_SENT)
    async with log.worker():
        run = await log.enqueue(thrice, "resend", False)
        record = await until(run, "failed")
    stored = await log.administration.stored(run.id)
    assert record.effects[0].state == "started"
    assert record.effects[0].in_doubt
    assert stored.effects[0].open_requests == 1
    assert stored.effects[0].first_request.wall == pytest.approx(
        record.effects[0].started_at.timestamp(), abs=0.5
    )


@pytest.mark.parametrize("policy", ["hold", "resend"])
async def test_a_refusal_for_good_ends_the_run_and_is_raised_again_on_replay(
    log: EffectLog, play: Any, policy: str
) -> None:
    play(StolenError(402, "the card is stolen"), "a second effect")
    async with log.worker():
        run = await log.enqueue(thrice, policy, True)
        with pytest.raises(RunFailed, match="the card is stolen"):
            await run.result(timeout=20)
        await run.retry()
        with pytest.raises(RunFailed, match="the card is stolen"):
            await run.result(timeout=20)
    record = await run.record()
    assert (len(ids), len(record.attempts)) == (1, 2)
    assert record.effects[0].final


async def test_a_refusal_for_good_is_caught_by_its_own_type_at_first_and_on_replay(
    log: EffectLog, play: Any
) -> None:
    play(StolenError(402, "the card is stolen"))
    async with log.worker():
        first = await log.enqueue(catches)
        assert await first.result(timeout=20) == "StolenError, True: 402: the card is stolen"
    stored = await log.administration.stored(first.id)
    assert stored.effects[0].final


@effect(key="pay", name="lost/stripe", final=(CARD_DECLINED_STRIPE,))
def pay() -> str:
    ids.append(operation_id())
    raise stripe.CardError("Your card was declined.", "number", "card_declined")


@durable_task(name="lost/pays", retry=Retry(delay=0.0))
def pays() -> str:
    try:
        return pay()
    except stripe.CardError as error:
        if current_attempt().number == 1:
            raise RuntimeError("so that the second attempt meets the recorded failure") from error
        return str(error)


async def test_a_group_of_errors_is_raised_as_the_clients_own_class_at_first_and_on_replay(
    log: EffectLog,
) -> None:
    ids.clear()
    async with log.worker():
        run = await log.enqueue(pays)
        assert await run.result(timeout=20) == "Your card was declined."
    assert len(ids) == 1
    assert [attempt.outcome for attempt in (await run.record()).attempts] == ["error", "succeeded"]


async def test_a_refusal_for_good_after_a_lost_answer_keeps_the_doubt_as_evidence(
    log: EffectLog, play: Any
) -> None:
    play(LOST, DeclinedError(402, "no money"))
    async with log.worker():
        run = await log.enqueue(thrice, "resend", False)
        with pytest.raises(RunFailed, match="no money"):
            await run.result(timeout=20)
    (found,) = (await run.record()).effects
    assert found.final
    assert "1 earlier request(s) had no outcome" in found.evidence


async def test_a_hold_does_not_wait_for_the_effects_own_retry_first(
    log: EffectLog, play: Any, until: Any
) -> None:
    @effect(key="send", name="lost/slow", in_doubt="hold", retry=Retry(delay=60.0))
    async def send() -> str:
        return request()

    @durable_task(name="lost/slow-task")
    async def task() -> str:
        return await send()

    play(LOST)
    async with log.worker():
        run = await log.enqueue(task)
        await until(run, "held", timeout=20.0)
    assert len(ids) == 1
