"""F007: code that blocks its loop is told by task, effect and seconds, also when it took longer than the lease."""

import asyncio
import re
import time
import warnings
from pathlib import Path

import pytest

from effectlog import EffectLog, EffectLogWarning, durable_task, effect

LEASE = 0.6
"""Long enough for a busy machine: a third of it, from when the watch has asked, must fit into the shorter
block."""


@effect(key="naps")
def naps(seconds: float) -> None:
    time.sleep(seconds)


@durable_task
async def blocks(seconds: float) -> None:
    naps(seconds)


@pytest.mark.paced
@pytest.mark.parametrize("share", [0.8, 2.0])
async def test_a_blocked_loop_is_told_with_who_and_how_long(tmp_path: Path, share: float) -> None:
    async with EffectLog(str(tmp_path / "runs.db"), lease=LEASE, check_store=False) as log:
        run = await log.enqueue(blocks, LEASE * share)
        with pytest.warns(EffectLogWarning, match="event loop") as caught:
            async with log.worker():
                await run.result(timeout=20)
        record = await run.record()
    # A busy machine may block the loop as well; what is told of this effect must be right.
    (message, *_) = [str(warning.message) for warning in caught if "'naps'" in str(warning.message)]
    assert "blocks" in message
    told = re.search(r"for (\d+\.\d+) s", message)
    assert told is not None
    assert LEASE * share * 0.5 <= float(told[1]) <= LEASE * share + 1.0
    assert len(record.attempts) == 1


@durable_task
async def blocks_again_and_again(times: int) -> None:
    for _ in range(times):
        time.sleep(0.1)
        await asyncio.sleep(0.02)


@pytest.mark.paced
async def test_one_attempt_that_keeps_blocking_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with EffectLog(str(tmp_path / "runs.db"), lease=0.15, check_store=False) as log:
        run = await log.enqueue(blocks_again_and_again, 12)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            async with log.worker():
                await run.result(timeout=20)
    told = [str(w.message) for w in caught if run.id in str(w.message) and "event loop" in str(w.message)]
    assert len(told) == 1
    assert sum("has been blocked" in r.getMessage() and run.id in r.getMessage() for r in caplog.records) <= 2
