"""``log.run`` as a resumable script: killed at each boundary and started again with the same key."""

import asyncio
from typing import Any

import pytest
from support.whole_records import whole_records

from effectlog import EffectLog
from effectlog.testing.destinations import CountingDestination


@pytest.mark.parametrize(
    ("point", "requests"),
    [
        ("before started", 3),
        ("after started", 3),
        ("accepted", 4),
        ("after completed", 3),
        ("before end", 3),
    ],
)
async def test_started_again_it_goes_on(
    store: str, destination: CountingDestination, spawn: Any, point: str, requests: int
) -> None:
    first = spawn("--run=three_sync", pause_at=point)
    await asyncio.to_thread(first.wait_for, f"reached {point}")
    await asyncio.to_thread(first.kill)
    again = spawn("--run=three_sync")
    line = await asyncio.to_thread(again.wait_for, "result")
    assert line == "result ['done:one', 'done:two', 'done:three']"
    async with EffectLog(store, check_store=False) as log:
        (record,) = await whole_records(log)
    assert [attempt.outcome for attempt in record.attempts] == ["expired", "succeeded"]
    assert (len(destination.requests()), len(destination.effects())) == (requests, 3)


async def test_a_third_start_gets_the_stored_result(
    store: str, destination: CountingDestination, spawn: Any
) -> None:
    for _ in range(2):
        child = spawn("--run=three_sync")
        await asyncio.to_thread(child.wait_for, "result ['done:one', 'done:two', 'done:three']")
        await asyncio.to_thread(child.wait)
    assert len(destination.requests()) == 3
    async with EffectLog(store, check_store=False) as log:
        (record,) = await whole_records(log)
    assert len(record.attempts) == 1


async def test_a_second_start_waits_for_the_live_owner_and_takes_over_when_it_dies(
    store: str, destination: CountingDestination, spawn: Any
) -> None:
    first = spawn("--run=three_sync", pause_at="accepted")
    await asyncio.to_thread(first.wait_for, "reached accepted")
    second, third = spawn("--run=three_sync"), spawn("--run=three_sync")
    async with EffectLog(store, check_store=False) as log, log.worker():
        await asyncio.sleep(0.15)
        assert len(destination.requests()) == 1
        await asyncio.to_thread(first.kill)
        for waiting in (second, third):
            await asyncio.to_thread(waiting.wait_for, "result ['done:one', 'done:two', 'done:three']")
        (record,) = await whole_records(log)
    assert [attempt.outcome for attempt in record.attempts] == ["expired", "succeeded"]
    assert (len(destination.requests()), len(destination.effects())) == (4, 3)
