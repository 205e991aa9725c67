"""Danger: an error that proves the operation exists, or that its key was misused, is taken for something else."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from effectlog import (
    Applied,
    EffectConflict,
    EffectLog,
    NotApplied,
    Retry,
    durable_task,
    effect,
    operation_id,
)
from effectlog.contract import Destination
from effectlog.testing.destinations import KINDS, AnswerError, CountingDestination, Fault, send

FIRST = {"text": "a text", "next_text": "a text", "amount": 1999, "next_amount": 1999}
now: dict[str, Any] = FIRST | {"url": ""}


@pytest.fixture
def destination(request: pytest.FixtureRequest) -> Iterator[CountingDestination]:
    with CountingDestination(request.param) as running:
        now.update(FIRST, url=running.url)
        yield running


def request() -> Any:
    """Reads its text by itself; whoever changes it does so while the first request is under way."""
    text, now["text"] = now["text"], now["next_text"]
    now["amount"] = now["next_amount"]
    return send(now["url"], {"operation": "one", "text": text}, key=operation_id())["id"]


kind = pytest.mark.parametrize("destination", ["reject"], indirect=True)
rejects = KINDS["reject"].contract
again = Retry(max_attempts=3, delay=0.0)


@effect(key="send", name="exists/text", destination=rejects)
def as_text() -> str:
    return request()


@effect(key="send", name="exists/nothing", destination=rejects)
def as_nothing() -> None:
    request()


@effect(key="send", name="exists/number", destination=rejects)
def as_number() -> int:
    request()
    return 5


@effect(
    key="send",
    name="exists/found",
    destination=rejects,
    in_doubt=lambda: now["answers"].pop(0),
    lookup_budget=0.0,
)
def as_found() -> int:
    request()
    return 5


EFFECTS = {"text": as_text, "nothing": as_nothing, "number": as_number, "found": as_found}


@durable_task(name="exists", retry=again)
def exists(which: str) -> Any:
    return EFFECTS[which]()


@kind
@pytest.mark.parametrize(("which", "value"), [("text", "effect-1"), ("nothing", None)])
async def test_a_rejected_repeat_is_success(
    log: EffectLog, destination: CountingDestination, which: str, value: Any
) -> None:
    destination.lose_next_answer()
    async with log.worker():
        run = await log.enqueue(exists, which)
        assert await run.result(timeout=20) == value
    record = await run.record()
    assert (len(destination.requests()), len(destination.effects())) == (2, 1)
    assert record.effects[0].state == "completed"


@kind
async def test_a_value_that_does_not_fit_is_held_not_returned(
    log: EffectLog, destination: CountingDestination, until: Any
) -> None:
    destination.lose_next_answer()
    async with log.worker():
        run = await log.enqueue(exists, "number")
        record = await until(run, "held", "succeeded", "failed")
        assert record.state == "held"
        assert "'effect-1'" in record.attempts[-1].error.message
        await log.resolve(run.id, "send", Applied(5), by="tester")
        assert await run.result(timeout=20) == 5
    assert len(destination.effects()) == 1


@kind
async def test_a_value_that_does_not_fit_is_looked_up(
    log: EffectLog, destination: CountingDestination
) -> None:
    """First nothing is found, so it is sent again, and the rejection proves it.

    Then the look-up gives the value.
    """
    now["answers"] = [NotApplied(), Applied(5)]
    destination.lose_next_answer()
    async with log.worker():
        run = await log.enqueue(exists, "found")
        assert await run.result(timeout=20) == 5
    assert (len(destination.requests()), len(destination.effects())) == (2, 1)
    assert not now["answers"]


@kind
async def test_a_look_up_that_misses_what_is_proven_to_exist_is_not_believed(
    log: EffectLog, destination: CountingDestination, until: Any
) -> None:
    now["answers"] = [NotApplied(), NotApplied(), NotApplied()]
    destination.lose_next_answer()
    async with log.worker():
        run = await log.enqueue(exists, "found")
        await until(run, "held")
    assert (len(destination.requests()), len(destination.effects())) == (2, 1)


misuse = pytest.mark.parametrize("destination", ["replay"], indirect=True)


@effect(key="send", name="misused/inside", destination=KINDS["replay"].contract, ignore=("note",))
def reads_by_itself(order: str, note: str) -> str:
    return str(request())


@effect(key="charge", name="misused/argument", destination=KINDS["replay"].contract)
def takes_amount(cents: int) -> str:
    return str(request())


@durable_task(name="misused", retry=again)
def misused() -> str:
    return reads_by_itself("A-1", note=now["text"])


@durable_task(name="misused-argument", retry=Retry(max_attempts=3, delay=0.0, give_up_on=(EffectConflict,)))
def misused_argument() -> str:
    return takes_amount(now["amount"])


@misuse
async def test_a_key_used_with_other_parameters_is_held_with_both_fingerprints(
    log: EffectLog, destination: CountingDestination, until: Any, path: str
) -> None:
    now["next_text"] = "another text"
    destination.lose_next_answer()
    async with log.worker():
        run = await log.enqueue(misused)
        record = await until(run, "held", "succeeded", "failed")
    assert record.state == "held"
    assert [seen.outcome for seen in destination.requests()] == ["accepted", "misused"]
    stored = (await log.administration.stored(run.id)).effects[0]
    why = record.attempts[-1].error.message
    assert why.count(stored.fingerprints["order"]) == 2, "then and now"
    assert "not compared: note" in why
    assert "key_used_with_other_parameters" in record.effects[0].error.message
    shown = subprocess.run(
        [sys.executable, "-m", "effectlog", "show", run.id, "--store", path],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"COLUMNS": "2000"},
    ).stdout
    assert stored.fingerprints["order"] in shown


@misuse
async def test_changed_arguments_are_found_before_anything_is_sent(
    log: EffectLog, destination: CountingDestination, until: Any
) -> None:
    now["next_amount"] = 2999
    destination.lose_next_answer()
    async with log.worker():
        run = await log.enqueue(misused_argument)
        record = await until(run, "failed", "held", "succeeded")
    assert record.state == "failed"
    assert len(destination.requests()) == 1
    assert record.error.type == "effectlog.EffectConflict"
    stored = (await log.administration.stored(run.id)).effects[0]
    assert stored.fingerprints["cents"] in record.error.message
    assert "another cents" in record.error.message
    assert record.effects[0].in_doubt, "what became of the first request is still to be found out"


new_key = pytest.mark.parametrize("destination", ["new_key"], indirect=True)


@effect(
    key="send",
    name="new-key/declared",
    destination=KINDS["new_key"].contract,
    not_applied=AnswerError,
    retry=again,
)
def failing_for_sure() -> str:
    return str(request())


@effect(key="send", name="new-key/unknown", destination=KINDS["new_key"].contract)
def failing_somehow() -> str:
    return str(request())


@durable_task(name="new-key", retry=again)
def new_keys(declared: bool) -> str:
    return failing_for_sure() if declared else failing_somehow()


@new_key
async def test_a_definite_failure_gets_a_new_key_where_the_contract_asks_for_one(
    log: EffectLog, destination: CountingDestination
) -> None:
    destination.next_request(Fault(applies=False, status=500), times=2)
    async with log.worker():
        run = await log.enqueue(new_keys, True)
        assert await run.result(timeout=20) == "effect-1"
    record = await run.record()
    keys = [seen.key for seen in destination.requests()]
    assert len(keys) == len(set(keys)) == 3
    assert record.effects[0].operation_id == keys[-1]


@new_key
async def test_a_doubt_never_gets_a_new_key_by_itself(
    log: EffectLog, destination: CountingDestination, until: Any
) -> None:
    destination.next_request(Fault(applies=False, status=500))
    async with log.worker():
        run = await log.enqueue(new_keys, False)
        record = await until(run, "failed", "succeeded", "held")
        assert record.state == "failed"
        assert record.effects[0].in_doubt
        assert len({seen.key for seen in destination.requests()}) == 1
        await log.resolve(run.id, "send", NotApplied(new_operation=True), by="tester")
        await run.retry()
        assert await run.result(timeout=20) == "effect-1"
    assert len({seen.key for seen in destination.requests()}) == 2


def broken(_: BaseException) -> Any:
    raise RuntimeError("a defect of the contract")


def wordy(_: BaseException) -> Any:
    return "applied"


@pytest.mark.parametrize("classify", [broken, wordy])
async def test_a_contract_that_fails_itself_leaves_a_doubt(log: EffectLog, until: Any, classify: Any) -> None:
    contract = Destination("defect", on_repeat="ignores", settle=timedelta(0), classify=classify)

    @effect(key="send", name="defect", destination=contract, in_doubt="hold")
    def send_it() -> None:
        raise ConnectionResetError("no answer")

    @durable_task(name=f"defect-{classify.__name__}")
    def task() -> None:
        send_it()

    async with log.worker():
        run = await log.enqueue(task)
        record = await until(run, "held", "failed", "succeeded")
    assert record.state == "held"
    assert record.effects[0].error.type == "ConnectionResetError"
