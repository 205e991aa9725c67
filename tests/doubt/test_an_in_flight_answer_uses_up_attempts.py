"""Danger: "another request with this key is in flight" is taken for a failure, and the run ends while it succeeds."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from effectlog import EffectLog, Retry, durable_task, effect, operation_id
from effectlog.effects import request_errors
from effectlog.effects.doubt import in_flight_again
from effectlog.testing.destinations import KINDS, CountingDestination, Fault, send

url = ""


@pytest.fixture
def destination(monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingDestination]:
    """Its first request takes long, and the client gives up on it early."""
    with CountingDestination("replay") as running:
        running.next_request(Fault(delay_before=60))
        monkeypatch.setitem(globals(), "url", running.url)
        yield running


def request() -> str:
    return str(send(url, {"operation": "one"}, key=operation_id(), timeout=0.3)["id"])


contract = KINDS["replay"].contract


@effect(key="send", name="in-flight/bare", destination=contract)
def bare() -> str:
    return request()


@effect(key="send", name="in-flight/inside", destination=contract, retry=Retry(max_attempts=2, delay=0.0))
async def inside() -> str:
    return await asyncio.to_thread(request)


@durable_task(name="in-flight", retry=Retry(max_attempts=2, delay=0.0))
def by_the_run() -> str:
    return bare()


@durable_task(name="in-flight-inside", retry=Retry(max_attempts=1))
async def by_the_effect() -> str:
    return await inside()


async def in_flight(destination: CountingDestination, count: int) -> None:
    async with asyncio.timeout(20):
        while [seen.outcome for seen in destination.requests()].count("in_flight") < count:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("task", [by_the_run, by_the_effect], ids=["run", "effect"])
async def test_it_is_waited_out(log: EffectLog, destination: CountingDestination, task: Any) -> None:
    async with log.worker():
        run = await log.enqueue(task)
        await in_flight(destination, 3)
        destination.release()
        assert await run.result(timeout=20) == "effect-1"
    record = await run.record()
    assert len(destination.effects()) == 1
    assert len({seen.key for seen in destination.requests()}) == 1
    expected = ["error", "succeeded"] if task is by_the_run else ["succeeded"]
    assert [attempt.outcome for attempt in record.attempts] == expected
    assert record.effects[0].requests == len(destination.requests()) >= 5


async def test_what_takes_too_long_is_given_back_and_goes_on_later(
    log: EffectLog, destination: CountingDestination, monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    monkeypatch.setattr(request_errors, "IN_FLIGHT_BUDGET", 0.3)
    monkeypatch.setattr("effectlog.worker.outcome.GIVE_BACK_DELAY", 0.3)
    async with log.worker():
        run = await log.enqueue(by_the_run)
        async with asyncio.timeout(20):
            while len((record := await run.record()).attempts) < 4:
                await asyncio.sleep(0.01)
        destination.release()
        assert await run.result(timeout=20) == "effect-1"
    outcomes = [attempt.outcome for attempt in record.attempts[:3]]
    assert outcomes == ["error", "released", "released"]
    assert "still in flight at simulated/replay" in record.attempts[1].error.message
    for earlier, later in pairwise(record.attempts[1:4]):
        assert (later.started_at - earlier.ended_at).total_seconds() >= 0.29
    assert len(destination.effects()) == 1


async def test_a_run_given_back_waits_as_long_as_the_destination_asks(
    log: EffectLog, destination: CountingDestination, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_errors, "IN_FLIGHT_BUDGET", 0.0)
    slow = contract.replace(in_flight_wait=timedelta(seconds=30))

    @effect(key="send", name="in-flight/slow", destination=slow)
    def send_slowly() -> str:
        return request()

    @durable_task(name="in-flight-slow", retry=Retry(max_attempts=2, delay=0.0))
    def task() -> str:
        return send_slowly()

    async with log.worker():
        run = await log.enqueue(task)
        async with asyncio.timeout(20):
            while len((record := await run.record()).attempts) < 2 or record.state != "pending":
                await asyncio.sleep(0.01)
    assert (record.due_at - record.attempts[1].ended_at).total_seconds() >= 29


def test_the_pauses_grow_from_what_the_contract_says_to_a_minute() -> None:
    assert [in_flight_again(times, 2.0) for times in range(1, 8)] == [2, 4, 8, 16, 32, 60, 60]
    assert [in_flight_again(times, 90.0) for times in (1, 2)] == [90, 90]
    assert in_flight_again(10**6, 0.0) > 0
