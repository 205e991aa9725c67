"""Danger: a task fails in a worker, and no line of any log says so."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from effectlog import EffectLog, Retry, RunFailed, RunHeld, durable_task, effect

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


@durable_task(name="lines.fails", retry=Retry(max_attempts=2, delay=0.01))
async def fails(number: int) -> None:
    raise ValueError(f"no {number}")


@effect(key="charge", in_doubt="hold")
async def charge() -> None:
    raise ConnectionError("no answer")


@durable_task(name="lines.holds", retry=Retry(max_attempts=1))
async def holds() -> None:
    await charge()


@durable_task(name="lines.works")
async def works() -> int:
    return 1


async def _lines(
    path: Path, caplog: pytest.LogCaptureFixture, task: object, *args: object
) -> list[logging.LogRecord]:
    async with EffectLog(path) as log, log.worker():
        run = await log.enqueue(task, *args)  # type: ignore[arg-type]
        with contextlib.suppress(RunFailed, RunHeld):
            await run.result(timeout=20)
    return [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_retry_is_a_warning_and_a_dead_letter_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    retried, dead = await _lines(tmp_path / "orders.db", caplog, fails, 7)
    assert (retried.levelno, dead.levelno) == (logging.WARNING, logging.ERROR)
    assert "failed and is tried again in 0.0 s: ValueError: no 7" in retried.getMessage()
    assert "is a dead letter" in dead.getMessage()
    for line, attempt in ((retried, 1), (dead, 2)):
        assert f"attempt {attempt} of run " in line.getMessage()
        assert "(lines.fails)" in line.getMessage()
        assert line.exc_text is not None
        assert 'raise ValueError(f"no {number}")' in line.exc_text


async def test_a_hold_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (held,) = await _lines(tmp_path / "orders.db", caplog, holds)
    assert held.levelno == logging.WARNING
    assert "held for a decision" in held.getMessage()
    assert "ConnectionError: no answer" in held.getMessage()


async def test_success_leaves_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert await _lines(tmp_path / "orders.db", caplog, works) == []
