"""Danger: the wall clock is set back, and what nobody asked to wait waits until the clock has caught up."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from effectlog import EffectLog, Retry, RunFailed, RunState, durable_task
from effectlog.clock import SystemClock
from effectlog.model import AttemptOutcome
from effectlog.store import commands as c
from effectlog.store.rows import NewRun
from effectlog.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

HOUR = 3600.0
broken: list[bool] = []


class SettableClock(SystemClock):
    """The machine's clocks, of which the wall clock can be set."""

    ahead = 0.0

    def wall(self) -> float:
        return time.time() + self.ahead


@durable_task
async def plain() -> str:
    return "done"


@durable_task(concurrency_key="{customer}")
async def keyed(customer: str) -> str:
    return customer


@durable_task(concurrency=1)
async def limited() -> str:
    return "done"


@durable_task(retry=Retry(delay=20.0, jitter=0.0))
async def fails_once() -> str:
    if broken.pop():
        raise ConnectionError("away")
    return "done"


@durable_task(retry=Retry(max_attempts=1))
async def fails() -> str:
    if broken.pop():
        raise ConnectionError("away")
    return "done"


@pytest.fixture
async def clock(tmp_path: Path) -> SettableClock:
    return SettableClock()


@pytest.fixture
async def log(tmp_path: Path, clock: SettableClock) -> AsyncIterator[EffectLog]:
    async with EffectLog(SqliteStore(tmp_path / "runs.db", clock=clock), check_store=False) as log:
        yield log


async def test_what_was_enqueued_without_a_delay(log: EffectLog, clock: SettableClock) -> None:
    runs = [await log.enqueue(plain), await log.enqueue(keyed, "a"), await log.enqueue(limited)]
    clock.ahead = -HOUR
    async with log.worker():
        assert [await run.result(10) for run in runs] == ["done", "a", "done"]


async def test_what_was_asked_to_wait_still_waits(log: EffectLog, clock: SettableClock) -> None:
    clock.ahead = HOUR
    asked = await log.enqueue(plain.with_options(delay=5.0))
    clock.ahead = 0.0
    async with log.worker():
        await (await log.enqueue(plain)).result(10)
        assert (await asked.record()).state is RunState.PENDING
        clock.ahead = HOUR + 6.0
        assert await asked.result(10) == "done"


async def test_what_waits_to_be_tried_again(log: EffectLog, clock: SettableClock) -> None:
    broken[:] = [False, True]
    async with log.worker():
        run = await log.enqueue(fails_once)
        async with asyncio.timeout(10):
            while not (await run.record()).attempts or (await run.record()).state is not RunState.PENDING:
                await asyncio.sleep(0.01)
        clock.ahead = -HOUR
        assert await run.result(10) == "done"


async def test_what_a_person_retried(log: EffectLog, clock: SettableClock) -> None:
    broken[:] = [False, True]
    run = await log.enqueue(fails)
    async with log.worker():
        with pytest.raises(RunFailed):
            await run.result(10)
    await run.retry()
    clock.ahead = -HOUR
    async with log.worker():
        assert await run.result(10) == "done"


async def test_what_log_run_goes_on_with(log: EffectLog, clock: SettableClock) -> None:
    keyed_run = plain.with_options(idempotency_key="a")
    await log.enqueue(keyed_run)
    clock.ahead = -HOUR
    async with asyncio.timeout(10):
        assert await log.run(keyed_run) == "done"


async def test_what_was_taken_over_and_what_was_given_back(tmp_path: Path, clock: SettableClock) -> None:
    store = SqliteStore(tmp_path / "runs.db", clock=clock)
    await store.open()
    claim = c.Claim("a", "a", 30.0, (c.TaskLimit(("t",)),), 10)
    new = [NewRun(id=name, task="t", args=b"[]") for name in ("gone", "given")]
    await store.apply([c.CreateRuns((run,), scope="t") for run in new])
    await store.apply([claim])
    gone = c.EndAttempt(
        c.Fence("gone", 1), AttemptOutcome.EXPIRED, RunState.PENDING, c.Guard.LAPSED, frozenset({"a"})
    )
    given = c.EndAttempt(c.Fence("given", 1), AttemptOutcome.RELEASED, RunState.PENDING, delay=60.0)
    await store.apply([gone, given])
    clock.ahead = -HOUR
    assert (await store.due(["t"])).now
    (outcome,) = await store.apply([claim])
    assert isinstance(outcome, c.Claimed)
    assert {run.row.id for run in outcome.runs} == {"gone", "given"}
    await store.close()


async def test_those_who_waited_longest_come_first(tmp_path: Path, clock: SettableClock) -> None:
    # Else a steady stream of new runs would keep them waiting until the clock has caught up after all.
    store = SqliteStore(tmp_path / "runs.db", clock=clock)
    await store.open()
    await store.apply([c.CreateRuns((NewRun(id="before", task="t", args=b"[]"),), scope="t")])
    clock.ahead = -HOUR
    await store.apply([c.CreateRuns((NewRun(id="after", task="t", args=b"[]"),), scope="t")])
    for keyed_too in (False, True):
        claim = c.Claim("a", "a", 30.0, (c.TaskLimit(("t",), keyed=keyed_too),), 1)
        (outcome,) = await store.apply([claim])
        assert isinstance(outcome, c.Claimed)
        assert [run.row.id for run in outcome.runs] == [["before"], ["after"]][keyed_too]
    await store.close()
