"""Danger: a process that is stopped at the wrong moment keeps the others from working, or sends twice when it wakes."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

import fault_app
import pytest
from support.fault_processes import Crew, judge, left, whole, write_locked
from support.whole_records import whole_records

from effectlog import EffectLog

if TYPE_CHECKING:
    from effectlog.testing import CountingDestination

LEASE = 0.8


async def serving(log: EffectLog, count: int) -> None:
    engine = log.administration.engine
    async with asyncio.timeout(30):
        while len(await engine.read(engine.store.workers())) < count:
            await asyncio.sleep(0.01)


async def fewer_left(log: EffectLog) -> None:
    before = await left(log)
    async with asyncio.timeout(20):
        while before and await left(log) >= before:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "stops", [pytest.param(5), pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(900)])]
)
async def test_peers_go_on_and_whoever_wakes_up_adds_nothing(
    crew: Crew, destination: CountingDestination, stops: int
) -> None:
    chance = random.Random(stops)
    made = 0
    async with EffectLog(crew.db) as log:
        for _ in range(3):
            crew.start("work", lease=LEASE, concurrency=4)
        await serving(
            log, 3
        )  # One that is still opening its log gives up where a stopped one keeps it from writing.
        for _ in range(stops):
            made += len(await log.enqueue_many(fault_app.sends, [()] * 20))
            with crew.paused(chance.choice(crew.alive)):
                # Shorter and longer than the lease: some wake up as owners, others as strangers.
                time.sleep(chance.uniform(0.0, 2 * LEASE))
                # Only one that is stopped in the middle of a commit, which takes a moment, keeps others from
                # writing.
                if not write_locked(crew.db):
                    await fewer_left(log)
        async with asyncio.timeout(60):
            while await left(log):
                await asyncio.sleep(0.05)
        crew.stop_all()
        records = await whole_records(log, limit=made)
    assert len(records) == made
    extra = judge(records, destination)
    print(f"{stops} stops, {len(extra)} requests beyond the first")
    assert whole(crew.db)
