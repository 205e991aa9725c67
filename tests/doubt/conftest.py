"""What most tests of doubt need: a log on a file of the test's own, and a wait for a run's state."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from effectlog import EffectLog, Run, RunRecord


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "runs.db")


@pytest.fixture
async def log(path: str) -> AsyncIterator[EffectLog]:
    async with EffectLog(path, check_store=False) as opened:
        yield opened


Until = Callable[..., Awaitable[RunRecord]]


@pytest.fixture
def until() -> Until:
    """Wait until a run is in one of these states and give its record."""

    async def wait(run: Run[Any], *states: str, timeout: float = 20.0) -> RunRecord:
        async with asyncio.timeout(timeout):
            while (record := await run.record()).state not in states:
                await asyncio.sleep(0.01)
        return record

    return wait
