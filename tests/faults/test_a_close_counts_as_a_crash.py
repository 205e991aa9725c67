"""Danger: a log that is closed, or a program that ends, with a worker still at work leaves its runs as if it had crashed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from support.whole_records import whole_records_sync

from effectlog import EffectLog, durable_task

if TYPE_CHECKING:
    from pathlib import Path

began = threading.Event()

_FORGETFUL = """
import sys, threading
from effectlog import EffectLog, durable_task
began = threading.Event()
@durable_task(name="waits")
async def waits() -> None:
    import asyncio
    began.set()
    await asyncio.Event().wait()
log = EffectLog(sys.argv[1])
log.__enter__()
log.sync.worker().__enter__()
log.sync.enqueue(waits)
assert began.wait(60)
"""


@durable_task
async def waits_for_ever() -> None:
    began.set()
    await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    began.clear()


def ended(path: Path) -> list[tuple[str, list[str | None]]]:
    with EffectLog(path) as log:
        return [(record.state, [a.outcome for a in record.attempts]) for record in whole_records_sync(log)]


async def test_a_log_closed_under_its_worker_gives_the_runs_back(tmp_path: Path) -> None:
    log = EffectLog(tmp_path / "log.db")
    await log.__aenter__()
    async with log.worker():
        await log.enqueue(waits_for_ever)
        assert await asyncio.to_thread(began.wait, 60)
        await log.close()
    assert await asyncio.to_thread(ended, tmp_path / "log.db") == [("pending", ["released"])]


@pytest.mark.parametrize("closer", ["the same loop", "another loop"])
def test_a_blocking_log_closed_under_its_worker_gives_the_runs_back(tmp_path: Path, closer: str) -> None:
    log = EffectLog(tmp_path / "log.db")
    log.sync.open()
    with log.sync.worker():
        log.sync.enqueue(waits_for_ever)
        assert began.wait(60)
        if closer == "another loop":
            asyncio.run(log.close())
        log.sync.close()
    assert ended(tmp_path / "log.db") == [("pending", ["released"])]


def test_a_program_that_ends_without_leaving_its_worker_gives_the_runs_back(tmp_path: Path) -> None:
    program = [sys.executable, "-c", _FORGETFUL, str(tmp_path / "log.db")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert ended(tmp_path / "log.db") == [("pending", ["released"])]
