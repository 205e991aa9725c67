"""A person decides about an effect in doubt: the value fits what the effect returns, and who and why are kept."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from effectlog import (
    ActionRefused,
    Applied,
    DecodingError,
    EffectLog,
    EffectState,
    NotApplied,
    NotInDoubt,
    Retry,
    RunHeld,
    RunState,
    durable_task,
    effect,
)


@dataclass
class Charge:
    id: str
    cents: int


sent: list[str] = []


@effect(key="charge:{order}", in_doubt="hold")
async def charge(order: str) -> Charge:
    sent.append(order)
    if sent.count(order) == 1:
        raise ConnectionError("no answer")
    return Charge("sent again", 1)


@durable_task(name="charges", retry=Retry(max_attempts=1))
async def charges(order: str) -> str:
    charged = await charge(order)
    return f"{charged.id} {charged.cents}"


async def _held(log: EffectLog, order: str) -> str:
    sent.clear()
    run = await log.enqueue(charges, order)
    with pytest.raises(RunHeld, match="effectlog resolve"):
        await run.result(10)
    return run.id


async def test_an_applied_value_becomes_what_the_effect_returns(log: EffectLog) -> None:
    async with log.worker():
        run_id = await _held(log, "a")
        with pytest.raises(DecodingError, match="cents"):
            await log.resolve(run_id, "charge:a", Applied({"id": "ch_1"}), by="ann")
        await log.resolve(
            run_id, "charge:a", Applied({"id": "ch_1", "cents": 5}), by="ann", evidence="dashboard"
        )
        assert await (await log.get_run(run_id)).result(10) == "ch_1 5"
    (record,) = (await (await log.get_run(run_id)).record()).effects
    assert (record.state, record.resolved_by, record.requests) == (EffectState.COMPLETED, "ann", 1)
    assert "dashboard" in (record.evidence or "")
    with pytest.raises(NotInDoubt, match="resolved by ann"):
        await log.resolve(run_id, "charge:a", NotApplied(), by="bob")


async def test_not_applied_sends_once_more(log: EffectLog) -> None:
    async with log.worker():
        run_id = await _held(log, "b")
        await log.resolve(run_id, "charge:b", NotApplied(), by="ann")
        assert await (await log.get_run(run_id)).result(10) == "sent again 1"
    assert sent == ["b", "b"]


async def test_of_two_who_decide_at_a_time_one_is_told_who_was_first(log: EffectLog) -> None:
    async with log.worker():
        run_id = await _held(log, "c")
        answers = [Applied(Charge("one", 1)), Applied(Charge("two", 2))]
        told = await asyncio.gather(
            *(log.resolve(run_id, "charge:c", answer, by=answer.value.id) for answer in answers),
            return_exceptions=True,
        )
        (refused,) = [error for error in told if isinstance(error, NotInDoubt)]
        assert refused.resolved_by in ("one", "two")
        assert await (await log.get_run(run_id)).result(10) == (
            "one 1" if refused.resolved_by == "one" else "two 2"
        )


async def test_a_cancelled_run_takes_the_answer_and_stays_cancelled(log: EffectLog) -> None:
    async with log.worker():
        run_id = await _held(log, "d")
        run = await log.get_run(run_id)
        assert await run.cancel() is RunState.CANCELLED
        await log.resolve(run_id, "charge:d", Applied(Charge("late", 3)), by="ann")
        record = await run.record()
        assert (record.state, record.effects[0].result) == (RunState.CANCELLED, Charge("late", 3))
        await run.retry()
        assert await run.result(10) == "late 3"
    assert sent == ["d"]


@effect(key="unsure", in_doubt="hold")
async def unsure() -> str:
    raise ConnectionError("no answer")


@durable_task(name="never sure")
async def never_sure() -> str:
    return await unsure()


async def test_a_decision_about_one_request_is_not_taken_for_the_next(log: EffectLog) -> None:
    async with log.worker():
        run = await log.enqueue(never_sure)

        async def held(requests: int) -> None:
            while (record := await run.record()).state is not RunState.HELD or (
                record.effects[0].requests != requests
            ):
                await asyncio.sleep(0.005)

        await held(1)
        await log.resolve(run.id, "unsure", NotApplied(), by="ann", if_requests=1)
        await held(2)
        with pytest.raises(ActionRefused, match="2 requests, not 1"):
            await log.resolve(run.id, "unsure", NotApplied(), by="bob, an hour later", if_requests=1)
        decisions = (
            log.resolve(run.id, "unsure", Applied(who), by=who, if_requests=2) for who in ("ann", "bob")
        )
        (lost,) = filter(None, await asyncio.gather(*decisions, return_exceptions=True))
        assert isinstance(lost, ActionRefused | NotInDoubt)
        result = await run.result(10)
    (record,) = (await run.record()).effects
    assert (record.requests, record.resolved_by) == (2, result)
