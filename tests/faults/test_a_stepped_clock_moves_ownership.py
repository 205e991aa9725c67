"""Danger: somebody sets the wall clock, and a healthy run is taken over, or a dead one never is."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

import pytest

from effectlog import AttemptOutcome, EffectLog, Retry, durable_task, effect
from effectlog.clock import SystemClock
from effectlog.store.sqlite.liveness import NoLiveness
from effectlog.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

TEN_MINUTES = 600.0
requested: list[str] = []
go_on = threading.Event()


class SteppedClock(SystemClock):
    """The machine's clocks, of which the wall clock was set wrong by so many seconds."""

    def __init__(self, ahead: float) -> None:
        self.ahead = ahead

    def wall(self) -> float:
        return time.time() + self.ahead


def a_log(path: Path, ahead: float, lease: float, *, liveness: bool = True) -> tuple[EffectLog, SteppedClock]:
    clock = SteppedClock(ahead)
    store = SqliteStore(path, clock=clock)
    if not liveness:
        store._liveness = NoLiveness()  # So that the lease alone decides.
    return EffectLog(store, lease=lease, check_store=False), clock


@effect(key="slow")
async def slow() -> str:
    requested.append("slow")
    while not go_on.is_set():
        await asyncio.sleep(0.005)
    return "done"


@durable_task(retry=Retry(delay=0.0))
async def waits() -> str:
    return await slow()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    requested.clear()
    go_on.clear()


async def until_requested(count: int) -> None:
    async with asyncio.timeout(15):
        while len(requested) < count:
            await asyncio.sleep(0.01)


@pytest.mark.paced
@pytest.mark.parametrize("ahead", [TEN_MINUTES, -TEN_MINUTES])
async def test_a_live_lease_outlasts_any_step_of_either_sides_clock(tmp_path: Path, ahead: float) -> None:
    lease = 1.5
    mine, my_clock = a_log(tmp_path / "runs.db", 0.0, lease, liveness=False)
    other, other_clock = a_log(tmp_path / "runs.db", ahead, lease, liveness=False)
    async with mine, mine.worker():
        run = await mine.enqueue(waits)
        await until_requested(1)
        async with other, other.worker():
            my_clock.ahead = -ahead  # Both sides are wrong now, by twice as much between them.
            await asyncio.sleep(lease * 1.5)
            other_clock.ahead = 0.0
            await asyncio.sleep(lease / 2)
            go_on.set()
            assert await run.result(10) == "done"
        assert [attempt.number for attempt in (await run.record()).attempts] == [1]
    assert requested == ["slow"], "a peer took over from a live owner"


@pytest.mark.parametrize("ahead", [TEN_MINUTES, -TEN_MINUTES])
async def test_a_lost_owner_is_taken_over_on_time_whatever_the_clock_says(
    tmp_path: Path, ahead: float
) -> None:
    lease = 1.0
    path = tmp_path / "runs.db"
    lost, _ = a_log(path, 0.0, lease, liveness=False)
    async with lost:
        run = await lost.enqueue(waits)
        gone = lost.worker()
        await gone.__aenter__()
        await until_requested(1)
        # As if it had been stopped: it renews nothing and learns of nothing.
        keeping = gone._owner._task
        assert keeping is not None
        lost.administration.engine.call(cancel(keeping)).result()
        began = time.monotonic()
        rescuer, _ = a_log(path, ahead, lease, liveness=False)
        async with rescuer, rescuer.worker():
            await until_requested(2)
            took = time.monotonic() - began
            go_on.set()
            assert await (await rescuer.get_run(run.id)).result(10) == "done"
        assert took < lease + 5.0, "a wrong clock keeps a dead owner's lease alive"
        outcomes = [attempt.outcome for attempt in (await run.record()).attempts]
        assert outcomes == [AttemptOutcome.EXPIRED, AttemptOutcome.SUCCEEDED]
        await gone.release()


async def cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


async def test_a_due_time_follows_the_wall_clock_and_nothing_else_does(tmp_path: Path) -> None:
    # People say when; so a clock that is set forward makes delayed runs due, and that is all it does.
    log, clock = a_log(tmp_path / "runs.db", 0.0, 1.5)
    async with log, log.worker():
        delayed = await log.enqueue(waits.with_options(delay=TEN_MINUTES / 2))
        now = await log.enqueue(waits)
        await until_requested(1)
        clock.ahead = TEN_MINUTES
        await until_requested(2)
        go_on.set()
        assert [await delayed.result(10), await now.result(10)] == ["done", "done"]
        for run in (delayed, now):
            assert len((await run.record()).attempts) == 1
