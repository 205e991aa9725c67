"""A process that stood still (stopped, or with its host) did nothing wrong: its time counts against no timeout, one
standstill costs one attempt at most, and the record says what happened.
"""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING

import pytest
from support.worker_processes import completed
from worker_app import TIMEOUT, timed, timed_effect, timed_thread, two

from effectlog import AttemptOutcome, RunFailed, RunState, clock
from effectlog.attempt import pauses
from effectlog.attempt.pauses import PauseDetector

if TYPE_CHECKING:
    from support.worker_processes import Field, Process

    from effectlog import EffectLog

STOPPED = 2.5
"""Seconds for which a worker is stopped: past every timeout here."""


async def _stop_for(worker: Process, seconds: float) -> None:
    worker.signal(signal.SIGSTOP)
    await asyncio.sleep(seconds)
    worker.signal(signal.SIGCONT)


@pytest.mark.paced
async def test_no_timeout_counts_the_time_for_which_the_process_was_stopped(
    field: Field, log: EffectLog
) -> None:
    worker = field.worker(tell_warnings=True)
    calls = [(timed, "task"), (timed_thread, "thread"), (timed_effect, "effect")]
    runs = [await log.enqueue(task, what, TIMEOUT / 2) for task, what in calls]
    field.wait_for(lambda all_: len(all_) == len(runs))
    await _stop_for(worker, STOPPED)
    assert await asyncio.gather(*(run.result(10) for run in runs)) == ["task", "thread sent", "effect"]
    for run in runs:
        record = await run.record()
        assert [attempt.outcome for attempt in record.attempts] == [AttemptOutcome.SUCCEEDED]
        assert all(effect.requests == 1 for effect in record.effects)
    # Nor is it told as blocking code, or as an overrun.
    assert not [what for what in field.whats() if what.startswith("warning")]


@pytest.mark.paced
async def test_what_takes_too_long_by_itself_still_does_and_the_record_tells_of_both(
    field: Field, log: EffectLog
) -> None:
    worker = field.worker()
    run = await log.enqueue(timed, "task", 60.0)
    field.wait_for(lambda all_: len(all_) == 1)
    stopped = time.monotonic()
    await _stop_for(worker, STOPPED)
    try:
        await run.result(10)
    except RunFailed as error:
        told = str(error)
    assert time.monotonic() - stopped < STOPPED + TIMEOUT + 1.0
    assert f"timeout={TIMEOUT:g} s, apart from 2." in told or f"timeout={TIMEOUT:g} s, apart from 3." in told
    assert "its process stood still" in told
    (attempt,) = (await run.record()).attempts
    assert attempt.outcome is AttemptOutcome.TIMED_OUT


@pytest.mark.paced
async def test_a_standstill_past_the_lease_costs_one_attempt_and_is_told(
    field: Field, log: EffectLog
) -> None:
    worker = field.worker(lease=1.0)
    run = await log.enqueue(two, "a", 0.5)
    await completed(run, 1)
    await _stop_for(worker, STOPPED)
    assert await run.result(10) == "a:2"
    first, second = (await run.record()).attempts
    assert (first.outcome, second.outcome) == (AttemptOutcome.EXPIRED, AttemptOutcome.SUCCEEDED)
    assert first.error is not None
    assert "while its process stood still for" in first.error.message
    assert sorted(field.whats()) == ["a:1", "a:2"]
    assert (await run.record()).state is RunState.SUCCEEDED


def _pulse(monkeypatch: pytest.MonkeyPatch, *readings: tuple[float, float, float]) -> tuple[float, float]:
    """What a look gives between two readings of the clock of timers, processor time and boot clock."""
    told = iter([(0.0, 0.0, 0.0), *readings])
    monkeypatch.setattr(pauses, "_clocks", lambda: next(told))
    pulse = PauseDetector()
    return [pulse.look() for _ in readings][-1]


def test_only_a_standstill_is_excused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _pulse(monkeypatch, (20.0, 0.1, 20.0)) == (20.0, 20.0)
    assert _pulse(monkeypatch, (0.6, 0.1, 0.6)) == (0.0, 0.0), "everyday waiting"
    assert _pulse(monkeypatch, (20.0, 19.0, 20.0)) == (0.0, 0.0), "it computed all the while"
    # The machine slept: timers did not count that themselves, and there is nothing to excuse.
    assert _pulse(monkeypatch, (0.5, 0.0, 3600.0)) == (0.0, 3600.0)
    assert _pulse(monkeypatch, (20.0, 0.1, 20.0), (20.5, 0.2, 20.5)) == (0.0, 0.0), "told once"


def test_the_clocks_are_those_of_the_machine() -> None:
    timers, processor, boot = pauses._clocks()
    assert abs(timers - time.monotonic()) < 1.0
    assert abs(processor - time.process_time()) < 1.0
    assert abs(boot - clock.SystemClock().boot()) < 1.0
