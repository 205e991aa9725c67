"""Danger: among thousands of kills at random moments, one loses a run or sends a recorded effect again."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import fault_app
import pytest
from support.fault_processes import Crew, judge, left, requests_made, whole
from support.whole_records import whole_records

from effectlog import EffectLog

if TYPE_CHECKING:
    from effectlog.testing import CountingDestination

WORKERS = 4


@pytest.mark.parametrize(
    ("runs", "between"),
    [
        pytest.param(120, (0.2, 0.5)),
        pytest.param(5000, (0.05, 0.6), marks=[pytest.mark.long, pytest.mark.timeout(1200)]),
    ],
)
async def test_every_run_is_done_and_every_second_request_is_a_kills(
    crew: Crew, destination: CountingDestination, runs: int, between: tuple[float, float]
) -> None:
    chance = random.Random(runs)
    async with EffectLog(crew.db) as log:
        await log.enqueue_many(fault_app.sends, [()] * runs)
        for _ in range(WORKERS):
            crew.start("work", lease=5.0, concurrency=4)
        while unfinished := await left(log):
            time.sleep(chance.uniform(*between))
            if unfinished > 2 * WORKERS:
                crew.kill(chance.choice(crew.alive))
                crew.start("work", lease=5.0, concurrency=4)
        crew.stop_all()
        records = await whole_records(log, limit=runs)
    inside = judge(records, destination)
    print(f"{len(crew.killed)} kills, {len(inside)} requests hit; {len(destination.requests())} requests")
    assert inside, "no kill hit a request, so nothing was tried"
    assert {extra.pid for extra in inside} <= crew.killed, "repeated though its process was alive"
    made = requests_made(destination)
    for record in records:
        for effect in record.effects:
            attempts = [attempt for attempt, _ in made[record.id, effect.key]]
            # The last request is the one whose answer is recorded, so none was made after the record.
            assert attempts == sorted(attempts), (record.id, effect.key)
            assert attempts[-1] == effect.attempt, (record.id, effect.key)
    assert whole(crew.db)
