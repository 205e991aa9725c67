"""Danger: what a fenced-out worker, or a person, knows about a request arrives in between and is lost or sent again.

Each interleaving is forced: evidence or a decision lands between another owner's claim and its *started*,
while it executes, after it ended unknown, while the run is held, and after it has completed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.ghost import Ghost, paused

from effectlog import Applied, EffectLog, NotApplied, NotInDoubt, Retry, Run, durable_task, effect
from effectlog.store import commands as c


class Scene:
    """What the second owner does, and where it waits for the test."""

    def __init__(self) -> None:
        self.claimed = asyncio.Event()
        self.may_start = asyncio.Event()
        self.executing = asyncio.Event()
        self.may_return = asyncio.Event()
        self.error: Exception | None = None
        self.requests = 0

    async def request(self) -> str:
        self.requests += 1
        self.executing.set()
        await self.may_return.wait()
        if self.error is not None:
            raise self.error
        return "second"


scene = Scene()


@pytest.fixture(autouse=True)
def _new_scene(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "scene", Scene())


@effect(key="send", name="late/resend", in_doubt="resend")
async def resend() -> str:
    return await scene.request()


@effect(key="send", name="late/retried", in_doubt="resend", retry=Retry(delay=0.0))
async def retried() -> str:
    return await scene.request()


@effect(key="send", name="late/hold", in_doubt="hold")
async def hold() -> str:
    return await scene.request()


EFFECTS = {"resend": resend, "retried": retried, "hold": hold}


@durable_task(name="late", retry=Retry(delay=0.0))
async def task(which: str) -> str:
    scene.claimed.set()
    await scene.may_start.wait()
    return await EFFECTS[which]()


Begin = Callable[[str], Awaitable[tuple[Run[Any], Ghost]]]


@pytest.fixture
async def begin(log: EffectLog) -> Begin:
    async def play(which: str) -> tuple[Run[Any], Ghost]:
        run = await log.enqueue(task, which)
        return run, await paused(log, run, task="late", effect=f"late/{which}")

    return play


async def test_evidence_between_claim_and_started_is_replayed(log: EffectLog, begin: Begin) -> None:
    run, ghost = await begin("resend")
    async with log.worker():
        await scene.claimed.wait()  # Its journal is loaded, and says: in doubt.
        await ghost.complete("send", "first")
        scene.may_start.set()
        assert await run.result(timeout=20) == "first"
    record = await run.record()
    assert scene.requests == 0
    assert record.effects[0].requests == 1
    assert record.effects[0].resolved_by == "late outcome of attempt 1"


async def test_a_decision_between_claim_and_started_is_replayed(log: EffectLog, begin: Begin) -> None:
    run, _ = await begin("resend")
    async with log.worker():
        await scene.claimed.wait()
        await log.resolve(run.id, "send", Applied("decided"), by="tester")
        scene.may_start.set()
        assert await run.result(timeout=20) == "decided"
    assert scene.requests == 0
    assert (await run.record()).effects[0].resolved_by == "tester"


async def test_not_applied_between_claim_and_started_lets_a_hold_effect_be_sent(
    log: EffectLog, begin: Begin
) -> None:
    run, _ = await begin("hold")
    scene.may_return.set()
    async with log.worker():
        await scene.claimed.wait()
        await log.resolve(run.id, "send", NotApplied(), by="tester")
        scene.may_start.set()
        assert await run.result(timeout=20) == "second"
    assert scene.requests == 1


async def test_a_final_failure_between_claim_and_started_is_raised(
    log: EffectLog, begin: Begin, until: Any
) -> None:
    run, ghost = await begin("resend")
    async with log.worker():
        await scene.claimed.wait()
        await ghost.fail("send", c.RequestOutcome.FINAL)
        scene.may_start.set()
        record = await until(run, "failed", "succeeded")
    assert scene.requests == 0
    assert record.effects[0].final


async def test_evidence_while_another_executes_is_shown_and_changes_nothing(
    log: EffectLog, begin: Begin
) -> None:
    run, ghost = await begin("resend")
    scene.may_start.set()
    async with log.worker():
        await scene.executing.wait()
        outcome = await ghost.complete("send", "first")
        assert isinstance(outcome, c.EffectStored)
        assert outcome.late
        with pytest.raises(NotInDoubt, match="executing"):
            await log.resolve(run.id, "send", Applied("decided"), by="tester")
        scene.may_return.set()
        assert await run.result(timeout=20) == "second"
    record = await run.record()
    assert scene.requests == 1
    assert record.effects[0].requests == 2
    assert '"first"' in record.effects[0].evidence


@pytest.mark.parametrize("which", ["resend", "retried"])
async def test_evidence_settles_an_effect_whose_second_request_ended_unknown(
    log: EffectLog, begin: Begin, which: str
) -> None:
    run, ghost = await begin(which)
    scene.may_start.set()
    scene.error = ConnectionResetError("no answer either")
    async with log.worker():
        await scene.executing.wait()
        await ghost.complete("send", "first")
        scene.may_return.set()
        assert await run.result(timeout=20) == "first"
    record = await run.record()
    assert scene.requests == 1, "nothing is sent a third time"
    assert record.effects[0].requests == 2
    assert len(record.attempts) == (2 if which == "retried" else 3)


async def test_evidence_lets_a_held_run_go_on_by_itself(log: EffectLog, begin: Begin, until: Any) -> None:
    """Scenario S6 with hold: one request."""
    run, ghost = await begin("hold")
    scene.may_start.set()
    async with log.worker():
        await until(run, "held")
        await ghost.complete("send", "first")
        assert await run.result(timeout=20) == "first"
    record = await run.record()
    assert scene.requests == 0
    assert record.effects[0].requests == 1
    assert [attempt.outcome for attempt in record.attempts] == ["expired", "held", "succeeded"]


async def test_evidence_that_nothing_was_done_lets_a_held_run_send(
    log: EffectLog, begin: Begin, until: Any
) -> None:
    run, ghost = await begin("hold")
    scene.may_start.set()
    scene.may_return.set()
    async with log.worker():
        await until(run, "held")
        await ghost.fail("send", c.RequestOutcome.NOT_APPLIED)
        assert await run.result(timeout=20) == "second"
    assert scene.requests == 1


async def test_evidence_overrides_a_wrong_not_applied_that_nothing_followed_yet(
    log: EffectLog, begin: Begin, until: Any
) -> None:
    run, ghost = await begin("hold")
    scene.may_start.set()
    async with log.worker():
        await until(run, "held")
    await log.resolve(run.id, "send", NotApplied(), by="somebody in a hurry")
    await ghost.complete("send", "first")
    async with log.worker():
        assert await run.result(timeout=20) == "first"
    record = await run.record()
    assert scene.requests == 0
    assert record.effects[0].resolved_by == "late outcome of attempt 1"
    assert "somebody in a hurry" in record.effects[0].evidence


async def test_evidence_after_a_recorded_result_is_shown_and_changes_nothing(
    log: EffectLog, begin: Begin
) -> None:
    run, ghost = await begin("resend")
    scene.may_start.set()
    scene.may_return.set()
    async with log.worker():
        assert await run.result(timeout=20) == "second"
    before = await run.record()
    await ghost.complete("send", "first")
    record = await run.record()
    assert (record.result, record.effects[0].result) == ("second", "second")
    assert record.finished_at == before.finished_at
    assert '"first"' in record.effects[0].evidence


async def test_evidence_told_twice_is_kept_once(log: EffectLog, begin: Begin, until: Any) -> None:
    run, ghost = await begin("hold")
    scene.may_start.set()
    async with log.worker():
        await until(run, "held")
        for _ in range(2):
            await ghost.complete("send", "first")
        assert await run.result(timeout=20) == "first"
    assert (await run.record()).effects[0].evidence is None
