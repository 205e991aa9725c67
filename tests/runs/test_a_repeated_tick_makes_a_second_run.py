"""F174, F176: whatever ticks (cron, a loop, a person) may tick twice or in a lost hour: a key for each tick makes it once.

effectlog has no schedules of its own; this is the recipe of docs/guide.md.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from worker_app import quick

if TYPE_CHECKING:
    from effectlog import EffectLog, Run

PARIS = ZoneInfo("Europe/Paris")


async def _tick(log: EffectLog, day: date, hour: int, minute: int) -> Run[str]:
    """Ask for the run of one local day, at a local time."""
    at = datetime(day.year, day.month, day.day, hour, minute, tzinfo=PARIS)
    task = quick.with_options(idempotency_key=f"report:{day}", at=at)
    return await log.enqueue(task, f"report of {day}")


async def test_a_tick_that_is_repeated_after_a_restart_makes_no_second_run(log: EffectLog) -> None:
    day = date(2026, 3, 1)
    async with log.worker():
        assert await (await _tick(log, day, 2, 30)).result(10) == f"report of {day}"
        again = await asyncio.gather(*(_tick(log, day, 2, 30) for _ in range(3)))
    assert [run.created for run in again] == [False] * 3
    assert len(await log.list_runs()) == 1


@pytest.mark.parametrize(
    ("night", "offset"),
    [
        # The hour from 2 to 3 does not exist: 02:30 is read in the offset before it, so it starts at 03:30.
        (date(2027, 3, 28), 1),
        # It happens twice: the first one counts.
        (date(2027, 10, 31), 2),
    ],
    ids=["spring", "autumn"],
)
async def test_a_daily_run_is_made_once_in_the_nights_in_which_the_clocks_change(
    log: EffectLog, night: date, offset: int
) -> None:
    days = [night + timedelta(days=n) for n in (-1, 0, 1)]
    for day in days:
        for hour, minute in ((1, 30), (2, 30)):
            # A ticker that works through local time asks in either hour, and in the repeated one again.
            task = quick.with_options(
                idempotency_key=f"{hour}:{minute} of {day}",
                at=datetime(day.year, day.month, day.day, hour, minute, tzinfo=PARIS),
            )
            first = await log.enqueue(task, str(day))
            assert first.created
            folded = datetime(day.year, day.month, day.day, hour, minute, fold=1, tzinfo=PARIS)
            again = task.with_options(idempotency_key=f"{hour}:{minute} of {day}", at=folded)
            assert not (await log.enqueue(again, str(day))).created
    records = {record.idempotency_key: record for record in await log.list_runs()}
    assert len(records) == 2 * len(days)
    expected = datetime(night.year, night.month, night.day, 2, 30, tzinfo=UTC) - timedelta(hours=offset)
    assert records[f"2:30 of {night}"].due_at == expected
