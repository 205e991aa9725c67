"""A stored traceback shows the frames of the code that failed, and its end is what failed first."""

from pathlib import Path

import pytest
from support.executing import executed

from effectlog import DecodingError, EffectLog, Retry, RunRecord, current_attempt, durable_task, effect
from effectlog.codec import convert
from effectlog.error_info import describe

TWICE = Retry(max_attempts=2, delay=0.0)


class Declined(Exception):
    pass


def provider() -> str:
    raise Declined("no money")


def our_service() -> str:
    try:
        return provider()
    except Declined as error:
        raise LookupError("no answer") from error


@effect(key="declines", final=Declined)
def declines() -> str:
    return provider()


@effect(key="breaks")
async def breaks() -> str:
    return our_service()


@durable_task(retry=TWICE)
def is_declined() -> str:
    try:
        return declines()
    except Declined:
        if current_attempt().number == 1:
            raise OSError("again") from None
        raise


@durable_task(retry=Retry(max_attempts=1))
async def is_broken() -> str:
    return await breaks()


@durable_task(retry=Retry(max_attempts=1))
def fails_alone() -> str:
    return our_service()


def traceback_of(record: RunRecord) -> str:
    assert record.error is not None
    return record.error.traceback


OURS = (
    str(Path("effectlog", "call.py")),
    str(Path("effectlog", "execution.py")),
    str(Path("effectlog", "steps.py")),
)


@pytest.mark.parametrize("task", [is_broken, fails_alone])
async def test_frames_of_effectlog_are_left_out_and_the_cause_is_kept(log: EffectLog, task: object) -> None:
    text = traceback_of(await executed(log, task))
    assert not any(file in text for file in OURS)
    for name in ("provider", "our_service", "Declined: no money", "LookupError: no answer"):
        assert name in text
    assert text.index("Declined: no money") < text.index("LookupError: no answer")


async def test_a_final_failure_ends_with_where_it_came_from_on_replay_too(log: EffectLog) -> None:
    record = await executed(log, is_declined)
    assert len(record.attempts) == 2
    text = traceback_of(record)
    assert not any(file in text for file in OURS)
    assert text.index("in is_declined") < text.index("in provider")
    assert text.rstrip().endswith("Declined: no money")
    effect_error = record.effects[0].error
    assert effect_error is not None
    assert effect_error.traceback in text


def test_what_breaks_inside_effectlog_is_still_found_there() -> None:
    with pytest.raises(DecodingError) as raised:
        convert("x", int)
    assert raised.value.__traceback__ is not None
    own = RuntimeError("a defect").with_traceback(raised.value.__traceback__.tb_next)
    assert str(Path("effectlog", "codec")) in describe(own).traceback


def test_a_long_chain_of_causes_is_described_all_the_same() -> None:
    error = ValueError(0)
    for n in range(5_000):
        following = ValueError(n)
        following.__cause__ = error
        error = following
    assert describe(error).message == "4999"
