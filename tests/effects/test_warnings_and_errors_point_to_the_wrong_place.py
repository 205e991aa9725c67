"""A warning points to the user's line, and a user's exception arrives as what it is, not as one of our machinery."""

import inspect
import warnings
from collections.abc import Iterator

import pytest
from support.executing import executed

from effectlog import EffectLog, EffectLogWarning, durable_task, effect


@effect(key="same")
def same() -> int:
    return 1


@effect(key="same too")
async def same_too() -> int:
    return 1


@durable_task
def repeats() -> int:
    same()
    return same()  # the line that is meant


@durable_task
async def repeats_async() -> int:
    await same_too()
    return await same_too()  # the line that is meant


@pytest.mark.parametrize("task", [repeats, repeats_async])
async def test_a_warning_about_a_call_points_to_the_call(log: EffectLog, task: object) -> None:
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always", EffectLogWarning)
        await executed(log, task)
    (told,) = [w for w in given if "was used again" in str(w.message)]
    assert told.filename == __file__
    lines, first = inspect.getsourcelines(inspect.unwrap(task))  # type: ignore[arg-type]
    assert "the line that is meant" in lines[told.lineno - first]


@effect(key="calls from outside")
def outside() -> None: ...


@durable_task
def calls_from_outside() -> None:
    from contextvars import Context

    Context().run(outside)  # the line that is meant


async def test_a_warning_about_a_lost_context_points_to_the_call(log: EffectLog) -> None:
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always", EffectLogWarning)
        await executed(log, calls_from_outside)
    (told,) = [w for w in given if "outside any attempt" in str(w.message)]
    assert told.filename == __file__


def empty() -> Iterator[int]:
    yield from ()


@effect(key="next")
def takes_the_next() -> int:
    return next(empty())


@effect(key="final next", final=StopIteration)
def takes_the_next_for_good() -> int:
    return next(empty())


@durable_task
def goes_on_without() -> list[str]:
    caught = []
    for take in (takes_the_next, takes_the_next_for_good):
        try:
            take()
        except StopIteration as error:
            caught.append(type(error).__name__)
    return caught


async def test_a_stop_iteration_can_be_caught_as_one(log: EffectLog) -> None:
    record = await executed(log, goes_on_without)
    assert record.result == ["StopIteration", "StopIteration"]


@effect(key="runtime")
def breaks() -> None:
    raise RuntimeError("generator raised StopIteration")


@durable_task
def catches_a_runtime_error() -> str:
    try:
        breaks()
    except RuntimeError as error:
        return str(error)
    return "nothing"


async def test_an_error_of_the_users_that_looks_like_ours_stays_what_it_is(log: EffectLog) -> None:
    record = await executed(log, catches_a_runtime_error)
    assert record.result == "generator raised StopIteration"
