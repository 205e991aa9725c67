"""Danger: two people decide one doubt, somebody decides what isn't in doubt, or a decision goes astray."""

import asyncio
from typing import Any

import pytest
from support.ghost import Ghost

from effectlog import (
    Applied,
    ConfigurationError,
    DecodingError,
    EffectLog,
    EncodingError,
    NotApplied,
    NotInDoubt,
    Retry,
    Run,
    RunNotFound,
    durable_task,
    effect,
)

requests: list[str] = []


@effect(key="send", name="decided/send", in_doubt="hold")
def send(which: str) -> int:
    requests.append(which)
    if which == "loses":
        raise ConnectionResetError("no answer")
    if which == "declined":
        raise DeclinedError("no money")
    return 7


class DeclinedError(Exception):
    pass


@effect(key="decline", name="decided/decline", in_doubt="hold", final=DeclinedError)
def decline() -> int:
    raise DeclinedError("no money")


@durable_task(name="decided", retry=Retry(max_attempts=1))
def task(which: str) -> int:
    return decline() if which == "declined" else send(which)


@effect(
    key="send", name="decided/looked-up", in_doubt=lambda which: pytest.fail("no attempt is left to ask in")
)
def send_looked_up(which: str) -> int:
    requests.append(which)
    return 7


@durable_task(name="decided/looking", retry=Retry(max_attempts=1))
def looking_task(which: str) -> int:
    return send_looked_up(which)


@durable_task(name="decided/patient")
def patient_task(which: str) -> int:
    return send(which)


@pytest.fixture(autouse=True)
def _nothing_sent() -> None:
    requests.clear()


async def held(log: EffectLog, until: Any) -> Run[int]:
    run = await log.enqueue(task, "loses")
    async with log.worker():
        await until(run, "held")
    return run


@pytest.mark.parametrize(
    "answers", [(Applied(1), Applied(2)), (NotApplied(), Applied(2)), (NotApplied(), NotApplied())]
)
async def test_of_two_at_once_one_wins_and_the_other_is_told(
    log: EffectLog, path: str, until: Any, answers: tuple[Any, Any]
) -> None:
    run = await held(log, until)
    async with EffectLog(path, check_store=False) as elsewhere:
        results = await asyncio.gather(
            log.resolve(run.id, "send", answers[0], by="Ann"),
            elsewhere.resolve(run.id, "send", answers[1], by="Bob"),
            return_exceptions=True,
        )
    (winner,) = [name for name, result in zip(("Ann", "Bob"), results, strict=True) if result is None]
    (told,) = [result for result in results if result is not None]
    assert isinstance(told, NotInDoubt)
    assert told.resolved_by == winner
    assert winner in str(told)
    record = await run.record()
    assert record.effects[0].resolved_by == winner


async def test_of_many_at_once_one_wins(log: EffectLog, until: Any) -> None:
    run = await held(log, until)
    results = await asyncio.gather(
        *(log.resolve(run.id, "send", Applied(number), by=f"person {number}") for number in range(20)),
        return_exceptions=True,
    )
    (winner,) = [number for number, result in enumerate(results) if result is None]
    assert all(isinstance(result, NotInDoubt) for result in results if result is not None)
    async with log.worker():
        assert await run.result(timeout=20) == winner
    assert requests == ["loses"]


async def test_who_and_why_are_kept_and_the_run_goes_on_at_once(log: EffectLog, until: Any) -> None:
    run = await log.enqueue(task, "loses")
    async with log.worker():
        await until(run, "held")
        await log.resolve(run.id, "send", Applied(9), by="Ann", evidence="receipt 9 at the provider's")
        assert await run.result(timeout=20) == 9
    (kept,) = (await run.record()).effects
    assert (kept.resolved_by, kept.evidence) == ("Ann", "receipt 9 at the provider's")
    assert (kept.requests, requests) == (1, ["loses"])


async def test_a_value_of_another_type_is_refused_and_nothing_is_decided(log: EffectLog, until: Any) -> None:
    run = await held(log, until)
    with pytest.raises(DecodingError, match="does not fit"):
        await log.resolve(run.id, "send", Applied("seven"), by="Ann")
    record = await run.record()
    assert record.state == "held"
    assert record.effects[0].in_doubt


async def test_a_value_that_is_too_big_is_refused_and_nothing_is_decided(path: str, until: Any) -> None:
    async with EffectLog(path, check_store=False, max_value_bytes=300) as log:
        run = await held(log, until)
        with pytest.raises(EncodingError, match="and 300 are allowed"):
            await log.resolve(run.id, "send", Applied(10**400), by="Ann")
        record = await run.record()
        assert (record.state, record.effects[0].in_doubt) == ("held", True)
        await log.resolve(run.id, "send", Applied(7), by="Ann")
        async with log.worker():
            assert await run.result(timeout=20) == 7


async def why_not(log: EffectLog, run: str, key: str) -> str:
    """What a webhook learns of an effect that it can't decide."""
    with pytest.raises(NotInDoubt) as told:
        await log.resolve(run, key, Applied(8), by="webhook")
    return told.value.reason


async def test_what_is_not_in_doubt_is_refused(log: EffectLog, until: Any) -> None:
    done = await log.enqueue(task, "works")
    refused = await log.enqueue(task, "declined")
    async with log.worker():
        assert await done.result(timeout=20) == 7
        await until(refused, "failed")
    with pytest.raises(NotInDoubt, match="it is completed, not in doubt"):
        await log.resolve(done.id, "send", Applied(8), by="Ann")
    with pytest.raises(NotInDoubt, match="it is failed, not in doubt"):
        await log.resolve(refused.id, "decline", NotApplied(), by="Ann")
    with pytest.raises(NotInDoubt, match="no effect 'sned'; its effects are 'send'"):
        await log.resolve(done.id, "sned", Applied(8), by="Ann")
    assert [await why_not(log, done.id, key) for key in ("send", "sned")] == ["settled", "not begun"]
    assert await why_not(log, refused.id, "decline") == "settled"
    with pytest.raises(RunNotFound):
        await log.resolve("no such run", "send", Applied(8), by="Ann")
    assert (await done.record()).result == 7


@pytest.mark.parametrize("by", ["", "  "])
async def test_nobody_decides_nothing(log: EffectLog, until: Any, by: str) -> None:
    run = await held(log, until)
    with pytest.raises(ConfigurationError, match="by="):
        await log.resolve(run.id, "send", Applied(8), by=by)
    with pytest.raises(ConfigurationError, match="Applied"):
        await log.resolve(run.id, "send", True, by="Ann")  # type: ignore[arg-type]
    assert (await run.record()).state == "held"


async def test_a_request_under_way_is_not_decided_until_its_owner_is_gone(log: EffectLog) -> None:
    run = await log.enqueue(patient_task, "loses")
    ghost = await Ghost(log, run, lease=1.0).begin(
        "decided/patient", "decided/send", "send", {"which": "loses"}
    )
    with pytest.raises(NotInDoubt, match="executing"):
        await log.resolve(run.id, "send", Applied(8), by="Ann")
    assert await why_not(log, run.id, "send") == "being executed"
    ghost.lapse()
    await log.resolve(run.id, "send", Applied(8), by="Ann")
    async with log.worker():
        assert await run.result(timeout=20) == 8
    assert requests == []


async def test_not_applied_sends_again_and_may_ask_for_a_new_operation(log: EffectLog, until: Any) -> None:
    run = await held(log, until)
    first = (await run.record()).effects[0].operation_id
    await log.resolve(run.id, "send", NotApplied(), by="Ann")
    async with log.worker():
        record = await until(run, "held")
        assert record.effects[0].operation_id == first
        await log.resolve(run.id, "send", NotApplied(new_operation=True), by="Ann")
        async with asyncio.timeout(20):
            while (record := await run.record()).effects[0].requests < 3:
                await asyncio.sleep(0.01)
    assert record.effects[0].operation_id != first
    assert len(requests) == 3


async def test_a_decision_on_a_run_that_has_ended_is_recorded_and_leaves_its_state(
    log: EffectLog, until: Any
) -> None:
    run = await held(log, until)
    await run.cancel()
    await log.resolve(run.id, "send", Applied(8), by="Ann")
    record = await run.record()
    assert record.state == "cancelled"
    assert record.effects[0].result == 8
    await run.retry()
    async with log.worker():
        assert await run.result(timeout=20) == 8
    assert requests == ["loses"]


async def test_a_cancelled_and_retried_doubt_is_still_held(log: EffectLog, until: Any) -> None:
    run = await held(log, until)
    await run.cancel()
    await run.retry()
    async with log.worker():
        await until(run, "held")
    assert requests == ["loses"]


@pytest.mark.parametrize(
    ("stored", "declared"),
    [(task, "decided/send"), (looking_task, "decided/looked-up")],
    ids=["hold", "look-up"],
)
async def test_a_doubt_with_no_attempt_left_is_held_and_then_gets_one(
    log: EffectLog, until: Any, stored: Any, declared: str
) -> None:
    run = await log.enqueue(stored, "loses")
    ghost = await Ghost(log, run).begin(stored.spec.name, declared, "send", {"which": "loses"})
    ghost.lapse()
    async with log.worker():
        record = await until(run, "held", "failed")
        assert record.state == "held"
        assert [attempt.outcome for attempt in record.attempts] == ["expired"]
        await log.resolve(run.id, "send", Applied(8), by="Ann")
        assert await run.result(timeout=20) == 8
    assert requests == []
