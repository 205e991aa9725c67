"""Runs that fail, and are retried at once, take every place again and again: what waits behind them never starts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from effectlog import EffectLog, Retry, durable_task

if TYPE_CHECKING:
    from pathlib import Path

AT_ONCE = Retry(max_attempts=1_000_000, delay=0.0)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    return str(request.getfixturevalue("postgres_database"))


@durable_task(name="always_fails", retry=AT_ONCE)
async def always_fails() -> None:
    raise ValueError("again")


@durable_task(name="always_too_late", retry=AT_ONCE, timeout=0.01)
async def always_too_late() -> None:
    await asyncio.Event().wait()


@durable_task(name="good")
async def good() -> str:
    return "done"


async def test_a_good_run_starts_beside_more_failing_ones_than_there_is_room_for(store: str) -> None:
    async with EffectLog(store) as log:
        failing = [await log.enqueue(task) for task in (always_fails, always_too_late, always_fails)]
        run = await log.enqueue(good)
        async with log.worker(concurrency=2):
            assert await run.result(20) == "done"
        attempts = [len((await failed.record()).attempts) for failed in failing]
    # It was behind them all, and each of them had its turn.
    assert all(attempts), attempts
