"""Danger: user code ends the loop behind ``log.sync``, and whoever waits for a result waits for ever."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from effectlog import EffectLog, Retry, RunFailed, durable_task

if TYPE_CHECKING:
    from pathlib import Path

_NO_RETRY = Retry(max_attempts=1)


@durable_task(retry=_NO_RETRY)
async def interrupts() -> None:
    raise KeyboardInterrupt


@durable_task(retry=_NO_RETRY)
async def exits_in_a_task_of_its_own() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    async with asyncio.TaskGroup() as group:
        group.create_task(leave())


@durable_task(retry=_NO_RETRY)
async def stops_the_loop() -> str:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)
    return "went on"


@durable_task
async def innocent() -> str:
    return "done"


def test_a_body_that_would_end_the_loop_fails_alone(tmp_path: Path) -> None:
    with EffectLog(tmp_path / "log.db") as log, log.sync.worker():
        for task, named in (
            (interrupts, "KeyboardInterrupt"),
            (exits_in_a_task_of_its_own, r"sys\.exit\(3\)"),
        ):
            with pytest.raises(RunFailed, match=named):
                log.sync.enqueue(task).result(timeout=30)
        assert log.sync.enqueue(stops_the_loop).result(timeout=30) == "went on"
        assert log.sync.enqueue(innocent).result(timeout=30) == "done"


def test_a_script_is_told_as_well(tmp_path: Path) -> None:
    with EffectLog(tmp_path / "log.db") as log:
        with pytest.raises(RunFailed, match="KeyboardInterrupt"):
            log.sync.run(interrupts)
        assert log.sync.run(innocent) == "done"
