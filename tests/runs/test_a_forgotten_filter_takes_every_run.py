"""What is done to many runs at once names them, and an age or a number that is none takes nothing away."""

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from effectlog import ConfigurationError, EffectLog, RunNotFound, RunState, durable_task

ANY: Any = "soon"


@durable_task
def instant(n: int) -> int:
    return n


@durable_task
def other() -> None: ...


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EffectLog]:
    async with EffectLog(str(tmp_path / "runs.db"), check_store=False) as opened:
        yield opened


REFUSED: dict[str, tuple[Callable[[EffectLog], Awaitable[Any]], str]] = {
    "purge of the future": (
        lambda log: log.purge(-1),
        "older_than=.*seconds from 0 on, as a number or a timedelta",
    ),
    "purge of a negative age": (lambda log: log.purge(timedelta(days=-1)), "older_than="),
    "purge of no number": (lambda log: log.purge(math.nan), "older_than="),
    "purge of no age": (lambda log: log.purge(math.inf), "older_than="),
    "purge of a text": (lambda log: log.purge(ANY), "older_than="),
    "purge of what has not ended": (lambda log: log.purge(0, "held"), "only ended runs"),
    "cancel everything": (lambda log: log.cancel_runs(), "without a filter"),
    "retry everything": (lambda log: log.retry_runs(), "without a filter"),
    "cancel an unknown state": (lambda log: log.cancel_runs(state="lost"), "not one of pending"),
    "cancel fewer than none": (lambda log: log.cancel_runs(state="pending", limit=-1), "limit=-1"),
    "list fewer than none": (lambda log: log.list_runs(limit=-1), "limit=-1.*whole number from 0 on"),
    "list half of one": (lambda log: log.list_runs(limit=ANY), "limit="),
    "list more than any store counts": (lambda log: log.list_runs(limit=2**70), "limit="),
    "get a number": (lambda log: log.get_run(3), "id is a text, not 3"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", REFUSED)
async def test_it_is_refused_with_advice_and_nothing_is_touched(log: EffectLog, what: str) -> None:
    await log.enqueue(instant, 1)
    ended = await log.enqueue(other)
    await ended.cancel()
    before = await log.list_runs()
    call, advice = REFUSED[what]
    with pytest.raises(ConfigurationError, match=advice):
        await call(log)
    assert await log.list_runs() == before


async def test_an_id_that_no_store_can_hold_is_one_that_is_not_there(log: EffectLog) -> None:
    with pytest.raises(RunNotFound):
        await log.get_run("x\x00")


async def test_the_filters_are_those_of_the_list(log: EffectLog) -> None:
    runs = await log.enqueue_many(instant, [(n,) for n in range(6)])
    left = await log.enqueue(other)
    newest_first = [run.id for run in reversed(runs)]
    assert await log.cancel_runs(task=instant, before=newest_first[0], limit=2) == newest_first[1:3]
    assert [r.id for r in await log.list_runs(state="cancelled")] == newest_first[1:3]
    assert await log.retry_runs(task=instant) == [], (
        "with a task alone: what failed, and nothing that was cancelled"
    )
    assert await log.retry_runs(state="cancelled", limit=1) == newest_first[1:2]
    assert len(await log.cancel_runs(state=RunState.PENDING, task=instant)) == 5
    assert (await left.record()).state is RunState.PENDING
