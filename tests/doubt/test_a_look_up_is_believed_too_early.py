"""Danger: a look-up's miss, silence or error is taken for proof that nothing happened, and the request is repeated."""

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from support.ghost import GHOST, paused

from effectlog import (
    Applied,
    EffectLog,
    EffectLogWarning,
    NotApplied,
    Retry,
    Unknown,
    durable_task,
    effect,
    operation_id,
)
from effectlog.contract import Destination
from effectlog.store.sqlite.liveness import liveness_beside

LostError = ConnectionResetError
pytestmark = pytest.mark.paced


class Story:
    """What the destination answers, in turn, and what was asked and sent; the last answer is repeated."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.loses = 1
        self.sent: list[str] = []
        self.asked: list[float] = []

    def send(self) -> str:
        self.sent.append(operation_id())
        if len(self.sent) <= self.loses:
            raise LostError("no answer")
        return "sent"

    def ask(self) -> Any:
        self.asked.append(time.monotonic())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer() if isinstance(answer, Callable) else answer  # type: ignore[arg-type]


story = Story()


@pytest.fixture(autouse=True)
def _new_story(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "story", Story())


def destination(settle: float) -> Destination:
    return Destination("searchable", on_repeat="ignores", settle=timedelta(seconds=settle))


def ask() -> Any:
    return story.ask()


def declare(name: str, *, settle: float = 0.0, budget: float = 0.5, in_doubt: Any = None) -> Any:
    @effect(
        key="send",
        name=f"look-up/{name}",
        destination=destination(settle),
        in_doubt=in_doubt or ask,
        lookup_budget=budget,
        retry=Retry(delay=0.0),
    )
    async def send() -> str:
        return story.send()

    return send


prompt = declare("prompt")
patient = declare("patient", budget=30.0)
settling = declare("settling", settle=0.4)


@durable_task(name="looks-up", retry=Retry(max_attempts=1))
async def looks_up(which: str) -> str:
    return await EFFECTS[which]()


async def hang() -> Any:
    story.asked.append(time.monotonic())
    await asyncio.Event().wait()


EFFECTS = {
    "prompt": prompt,
    "patient": patient,
    "settling": settling,
    "hanging": declare("hanging", in_doubt=hang, budget=0.2),
}


async def test_unknown_is_asked_again_and_then_found(log: EffectLog) -> None:
    story.answers = [Unknown(), Unknown(retry_after=0.01), Applied("found")]
    async with log.worker():
        run = await log.enqueue(looks_up, "patient")
        assert await run.result(timeout=20) == "found"
    record = await run.record()
    assert len(story.sent) == record.effects[0].requests == 1
    assert record.effects[0].resolved_by == "look-up"
    first, second, third = story.asked
    assert second - first >= 0.5, "without a word about when, the pause grows from half a second"
    assert third - second < second - first, "the destination said when to ask again"


async def test_unknown_past_the_budget_is_held(log: EffectLog, until: Any) -> None:
    story.answers = [Unknown(retry_after=0.05)]
    async with log.worker():
        run = await log.enqueue(looks_up, "prompt")
        record = await until(run, "held")
    assert len(story.sent) == 1
    assert len(story.asked) >= 3
    assert record.effects[0].in_doubt
    assert "could not tell" in record.attempts[0].error.message


async def test_the_budget_begins_with_the_first_answer_that_knows_nothing(log: EffectLog) -> None:
    """Not with the call: what the requests themselves took is no time that the look-up had."""

    def slow_miss() -> NotApplied:
        time.sleep(0.6)  # longer than the whole budget
        return NotApplied()

    story.loses = 2
    story.answers = [slow_miss, Unknown(retry_after=0.05), Applied("found")]
    async with log.worker():
        run = await log.enqueue(looks_up, "prompt")
        assert await run.result(timeout=20) == "found"
    assert len(story.sent) == 2


@pytest.mark.parametrize("trouble", [OSError("no route"), ValueError("not JSON")])
async def test_an_exception_is_no_answer(log: EffectLog, until: Any, trouble: Exception) -> None:
    story.answers = [trouble]
    async with log.worker():
        run = await log.enqueue(looks_up, "prompt")
        record = await until(run, "held")
    assert len(story.sent) == 1
    assert len(story.asked) >= 2
    assert record.effects[0].state == "started"


async def test_an_exception_is_overcome_by_a_later_answer(log: EffectLog) -> None:
    story.answers = [OSError("no route"), Applied("found")]
    async with log.worker():
        run = await log.enqueue(looks_up, "patient")
        assert await run.result(timeout=20) == "found"
    assert len(story.sent) == 1


async def test_one_that_never_answers_is_held_after_its_budget(log: EffectLog, until: Any) -> None:
    async with log.worker():
        run = await log.enqueue(looks_up, "hanging")
        await until(run, "held")
    assert len(story.sent) == 1
    assert story.asked


async def test_another_value_than_the_three_answers_is_unknown_and_said(log: EffectLog, until: Any) -> None:
    async def play() -> None:
        async with log.worker():
            run = await log.enqueue(looks_up, "prompt")
            await until(run, "held")

    story.answers = [True]
    with pytest.warns(EffectLogWarning, match="returned bool"):
        await play()
    assert len(story.sent) == 1


async def test_a_value_of_another_type_is_held_not_returned(log: EffectLog, until: Any) -> None:
    story.answers = [Applied({"not": "a text"})]
    async with log.worker():
        run = await log.enqueue(looks_up, "prompt")
        record = await until(run, "held")
        assert "can't be the result" in record.attempts[0].error.message
        await log.resolve(run.id, "send", Applied("a text"), by="tester")
        assert await run.result(timeout=20) == "a text"
    assert len(story.sent) == 1


async def test_a_miss_counts_only_after_the_settle_time(log: EffectLog) -> None:
    """The index lags: it finds the first request later than the first question, and before the settle time is over."""
    story.answers = [NotApplied(), Applied("found")]
    async with log.worker():
        run = await log.enqueue(looks_up, "settling")
        assert await run.result(timeout=20) == "found"
    assert len(story.sent) == 1


async def test_a_miss_that_was_asked_before_the_settle_time_does_not_count_after_it(log: EffectLog) -> None:
    def slow_miss() -> NotApplied:
        time.sleep(0.6)
        return NotApplied()

    story.answers = [slow_miss, Applied("found")]
    async with log.worker():
        run = await log.enqueue(looks_up, "settling")
        assert await run.result(timeout=20) == "found"
    assert len(story.sent) == 1


async def test_a_settled_miss_sends_again_under_the_same_id(log: EffectLog) -> None:
    story.answers = [NotApplied()]
    async with log.worker():
        run = await log.enqueue(looks_up, "settling")
        assert await run.result(timeout=20) == "sent"
    assert len(story.sent) == 2
    assert len(set(story.sent)) == 1
    assert story.asked[-1] - story.asked[0] >= 0.3, "asked anew once the settle time was over"


async def test_a_miss_may_ask_for_a_new_operation(log: EffectLog) -> None:
    story.answers = [NotApplied(new_operation=True)]
    async with log.worker():
        run = await log.enqueue(looks_up, "prompt")
        assert await run.result(timeout=20) == "sent"
    record = await run.record()
    assert len(set(story.sent)) == 2
    assert record.effects[0].operation_id == story.sent[-1]


def test_sync_effects_ask_async_look_ups_and_the_other_way_round(path: str) -> None:
    async def ask() -> Any:
        await asyncio.sleep(0)
        return story.ask()

    @effect(key="send", name="look-up/sync", in_doubt=ask, lookup_budget=5.0, retry=Retry(delay=0.0))
    def send() -> str:
        return story.send()

    @durable_task(name="looks-up-sync")
    def task() -> str:
        return send()

    story.answers = [Applied("found")]
    with EffectLog(path, check_store=False) as log:
        assert log.sync.run(task) == "found"
    assert len(story.sent) == 1
    assert threading.active_count() < 20


@durable_task(name="looks-up-again", retry=Retry(delay=0.0))
async def looks_up_again(which: str) -> str:
    return await EFFECTS[which]()


async def test_the_settle_time_counts_from_when_a_paused_owner_is_known_dead(
    log: EffectLog, path: str
) -> None:
    """It woke up, sent, and died, all between two questions: its request has as long to show as any other."""
    liveness = liveness_beside(path)
    await liveness.hold(GHOST)
    died: list[float] = []

    def index() -> Applied | NotApplied:
        return Applied("found") if died and time.monotonic() > died[0] + 0.5 else NotApplied()

    story.answers = [index]
    run = await log.enqueue(looks_up_again, "settling")
    await paused(log, run, task="looks-up-again", effect="look-up/settling")
    async with log.worker():
        async with asyncio.timeout(20):
            while not story.asked:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        died.append(time.monotonic())
        liveness.abandon()
        assert await run.result(timeout=20) == "found"
    assert story.sent == []
    assert (await run.record()).effects[0].requests == 1


async def test_a_miss_is_no_answer_while_the_earlier_owner_may_be_alive(
    log: EffectLog, path: str, until: Any
) -> None:
    await liveness_beside(path).hold(GHOST)
    story.answers = [NotApplied()]
    run = await log.enqueue(looks_up_again, "settling")
    ghost = await paused(log, run, task="looks-up-again", effect="look-up/settling")
    async with log.worker():
        record = await until(run, "held")
        assert "may still be alive" in record.attempts[-1].error.message
        await ghost.complete("send", "sent at last")
        assert await run.result(timeout=20) == "sent at last"
    assert story.sent == []
