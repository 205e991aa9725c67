"""Danger: one duration takes a timedelta and the next one refuses it, or takes it for something else."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from effectlog import ConfigurationError, EffectLog, Retry, durable_task, effect

if TYPE_CHECKING:
    from pathlib import Path

MINUTE = timedelta(minutes=1)


@durable_task(name="durations.greet", timeout=MINUTE, retry=Retry(delay=timedelta(0), max_delay=MINUTE))
async def greet(name: str) -> str:
    return send(name)


@effect(key="send:{name}", timeout=MINUTE, lookup_budget=MINUTE, retry=Retry(delay=timedelta(0)))
def send(name: str) -> str:
    return name


def test_retries_reckon_in_seconds() -> None:
    retry = Retry(delay=MINUTE, max_delay=timedelta(hours=1), jitter=0.0)
    assert (retry.delay, retry.max_delay) == (60.0, 3600.0)
    assert retry == Retry(delay=60.0, max_delay=3600.0, jitter=0.0)
    assert [retry.delay_after(1), retry.delay_after(2)] == [60.0, 120.0]
    with pytest.raises(ConfigurationError, match="delay"):
        Retry(delay=timedelta(seconds=-1))
    with pytest.raises(ConfigurationError, match="backoff"):
        Retry(backoff=MINUTE)  # type: ignore[arg-type]


async def test_declared_and_waited_for(tmp_path: Path) -> None:
    assert greet.spec.timeout == 60.0
    assert greet.with_options(delay=MINUTE).options.delay == 60.0
    async with EffectLog(tmp_path / "orders.db", lease=MINUTE, heartbeat=timedelta(seconds=10)) as log:
        run = await log.enqueue(greet.with_options(delay=timedelta(milliseconds=1)), "Ada")
        with pytest.raises(TimeoutError, match="within 0 s"):
            await run.result(timeout=timedelta(seconds=-1))
        async with log.worker(retention=MINUTE) as worker:
            assert await run.result(timeout=MINUTE) == "Ada"
            assert await worker.drain(timeout=MINUTE)
        assert await log.purge(MINUTE) == 0
