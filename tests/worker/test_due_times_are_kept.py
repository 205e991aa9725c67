"""Delays and retries have stored due times: nothing starts early, and nothing due waits for a poll."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from worker_app import bare, limited, note, quick

from effectlog import ConfigurationError, EffectLog, Retry, RunState, durable_task

if TYPE_CHECKING:
    from support.worker_processes import Field

LATEST = 0.25
"""Seconds after its due time at which the body of a run has begun on an idle worker, on a disk that others
use as well.

What missed its time would wait for the next look at the store, which takes a second."""


CLOCKS_APART = 0.01
"""Seconds by which the wall clock, in which due times are, and the monotonic one may drift in a test."""


@durable_task(name="fails once", retry=Retry(delay=0.4, jitter=0.0))
async def fails_once(what: str) -> str:
    note(f"try {what}")
    if not [line for line in _lines() if line.endswith(f"failed {what}")]:
        note(f"failed {what}")
        raise RuntimeError(what)
    return what


def _lines() -> list[str]:
    import os
    from pathlib import Path

    return Path(os.environ["REQUESTS"]).read_text(encoding="utf-8").splitlines()


def _begins(field: Field) -> dict[str, float]:
    return {request.what: request.at for request in field.requests()}


@pytest.mark.timed
async def test_a_run_starts_when_it_is_due(field: Field, log: EffectLog) -> None:
    async with log.worker():
        await (await log.enqueue(bare, "warm")).result(10)
        begun = time.monotonic()
        delays = {f"after {n}": 0.15 + n * 0.31 for n in range(6)}  # Apart, so that each needs its own.
        runs = [await log.enqueue(bare.with_options(delay=delay), what) for what, delay in delays.items()]
        at = datetime.now(UTC) + timedelta(seconds=0.5)
        runs.append(await log.enqueue(bare.with_options(at=at), "at"))
        delays["at"] = at.timestamp() - time.time() + time.monotonic() - begun
        await asyncio.gather(*(run.result(10) for run in runs))
    late = sorted(_begins(field)[what] - begun - delay for what, delay in delays.items())
    print(f"late by {late[0] * 1000:.0f} to {late[-1] * 1000:.0f} ms")
    # Half of them: the machine that runs tests is busy with other things as well.
    assert late[0] >= 0
    assert late[len(late) // 2] < LATEST, late


@pytest.mark.timed
async def test_a_run_starts_on_time_behind_one_that_a_limit_keeps_waiting(
    field: Field, log: EffectLog
) -> None:
    async with log.worker():
        first = await log.enqueue(limited, "first", 1.0)
        blocked = await log.enqueue(limited, "blocked", 0.0)
        field_wait = await log.enqueue(bare.with_options(delay=0.3), "timed")
        begun = time.monotonic()
        await field_wait.result(10)
        late = _begins(field)["timed"] - begun - 0.3
        assert -0.05 < late < LATEST, late
        await asyncio.gather(first.result(10), blocked.result(10))


@pytest.mark.timed
async def test_what_became_due_while_everything_was_stopped_starts_at_once(field: Field) -> None:
    async with EffectLog(field.db) as log:
        runs = [await log.enqueue(bare.with_options(delay=0.2), str(n)) for n in range(5)]
    await asyncio.sleep(0.3)
    async with EffectLog(field.db) as log, log.worker():
        up = time.monotonic()
        results = [await (await log.get_run(run.id)).result(10) for run in runs]
    assert results == [str(n) for n in range(5)]
    assert max(_begins(field).values()) - up < LATEST


@pytest.mark.timed
async def test_a_restart_neither_loses_nor_hurries_a_retry(field: Field) -> None:
    async with EffectLog(field.db) as log:
        async with log.worker():
            run = await log.enqueue(fails_once, "a")
            field.file.touch()
            while (await run.record()).error is None:
                await asyncio.sleep(0.005)
        record = await run.record()
        assert record.state is RunState.PENDING
    async with EffectLog(field.db) as log, log.worker():
        assert await (await log.get_run(run.id)).result(10) == "a"
    first, second = (request.at for request in field.requests() if request.what.startswith("try"))
    assert 0.4 <= second - first < 0.4 + LATEST + 0.1, second - first


async def test_a_run_executed_here_waits_until_it_is_due(field: Field, log: EffectLog) -> None:
    begun = time.monotonic()
    at = datetime.now(UTC) + timedelta(seconds=0.3)
    options = (quick.with_options(delay=0.3), quick.with_options(at=at))
    await asyncio.gather(
        *(log.run(option, what) for option, what in zip(options, ("delay", "at"), strict=True))
    )
    assert min(_begins(field).values()) - begun >= 0.3 - CLOCKS_APART


@pytest.mark.timed
@pytest.mark.parametrize("delay", [0.9, 0.0], ids=["the same call", "a call without the delay"])
async def test_a_killed_call_that_waited_goes_on_waiting_for_the_stored_time(
    field: Field, log: EffectLog, delay: float
) -> None:
    begun = time.monotonic()
    waiting = field.start("inline", task="quick", key="k", delay=0.9, args=["a"])
    while not (records := await log.list_runs()):
        await asyncio.sleep(0.005)
    waiting.kill()
    again = field.start("inline", task="quick", key="k", delay=delay, args=["a"])
    assert again.pipe.poll(10)
    assert again.pipe.recv() == "a"
    due = records[0].due_at.timestamp() - time.time() + time.monotonic()
    (request,) = field.requests()
    assert due >= begun + 0.9 - CLOCKS_APART
    assert due - CLOCKS_APART <= request.at < due + 0.8


@pytest.mark.paced
async def test_a_killed_call_does_not_hurry_a_retry(field: Field, log: EffectLog) -> None:
    """``failing`` pauses for a second between its two attempts."""
    doomed = field.start("inline", task="failing", key="k", args=["a"])
    while not (records := await log.list_runs()) or records[0].error is None:
        await asyncio.sleep(0.005)
    doomed.kill()
    field.start("inline", task="failing", key="k", args=["a"])
    first, second = field.wait_for(lambda all_: len(all_) == 2)
    assert second.at - first.at >= 1.0 - CLOCKS_APART


async def test_no_peer_runs_a_retry_before_its_due_time(field: Field) -> None:
    tries: dict[str, list[float]] = {}

    @durable_task(name="fails first", retry=Retry(delay=0.5, jitter=0.0))
    async def fails_first(what: str) -> None:
        tries.setdefault(what, []).append(time.monotonic())
        if len(tries[what]) == 1:
            raise RuntimeError(what)

    async with EffectLog(field.db) as one, EffectLog(field.db) as two, one.worker(), two.worker():
        runs = await one.enqueue_many(fails_first, [(str(n),) for n in range(500)])
        await asyncio.gather(*(run.result(30) for run in runs))
    gaps = [second - first for first, second in tries.values()]
    assert len(gaps) == 500
    assert min(gaps) >= 0.5


async def test_a_time_that_means_nothing_is_refused(log: EffectLog) -> None:
    with pytest.raises(ConfigurationError, match="no time zone"):
        quick.with_options(at=datetime(2030, 1, 1, 12, 0))  # noqa: DTZ001 - that is the point
    for never in (float("nan"), float("inf"), -1.0):
        with pytest.raises(ConfigurationError, match="seconds from 0 on"):
            quick.with_options(delay=never)
    paris = datetime.fromisoformat("2030-01-01T12:00:00+01:00")
    record = await (await log.enqueue(quick.with_options(at=paris), "later")).record()
    assert record.due_at == paris
    assert record.due_at.tzinfo is UTC
