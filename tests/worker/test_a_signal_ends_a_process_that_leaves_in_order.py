"""A second SIGTERM comes while the log closes: ended by the signal, a worker that lost nothing looks like one that crashed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from effectlog import EffectLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLOSING = """
import asyncio, os, signal, sys, time
from effectlog import EffectLog
from effectlog.store.sqlite.store import SqliteStore

class Closing(SqliteStore):
    async def close(self):
        if {ready!r} in told:
            print("closing", flush=True)
            await asyncio.sleep({seconds})
        await super().close()

told = []
async def main():
    async with EffectLog(Closing(sys.argv[1])) as log:
        await log.worker().serve(ready=lambda: told.append({ready!r}) or print({ready!r}, flush=True))
    print("closed", flush=True)

asyncio.run(main())
"""


@contextlib.contextmanager
def _serving(db: Path, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """A worker of a program of somebody's own, whose store takes so long to close, once it serves."""
    program = CLOSING.format(ready="ready", seconds=seconds)
    with subprocess.Popen([sys.executable, "-c", program, db], stdout=subprocess.PIPE, text=True) as process:
        try:
            _expect(process, "ready")
            yield process
        finally:
            process.kill()


def _expect(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline().strip() == line


@pytest.mark.paced
@pytest.mark.parametrize("more", [1, 2], ids=["a second one", "a third one"])
def test_a_sigterm_while_the_log_closes_ends_nothing_in_between(tmp_path: Path, more: int) -> None:
    with _serving(tmp_path / "runs.db", 0.4) as process:
        process.send_signal(signal.SIGTERM)
        _expect(process, "closing")
        for _ in range(more):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.05)  # Two of a kind may arrive as one.
        _expect(process, "closed")
        assert process.wait(20) == 0


def test_a_log_that_does_not_close_keeps_no_process_that_was_told_twice(tmp_path: Path) -> None:
    with _serving(tmp_path / "runs.db", 600) as process:
        process.send_signal(signal.SIGTERM)
        _expect(process, "closing")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM


def test_a_worker_of_the_command_line_is_told_again_and_again(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from effectlog import durable_task\n\n@durable_task\ndef t(): ...\n")
    command = [sys.executable, "-m", "effectlog", "worker", "app", "--store", "runs.db"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert " serves " in process.stderr.readline()
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
            time.sleep(0.005)
    assert process.returncode == 0


async def test_a_closed_log_has_let_the_signals_go(tmp_path: Path) -> None:
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    async with EffectLog(tmp_path / "runs.db") as log:
        for _ in range(2):
            await log.worker().serve(ready=lambda: os.kill(os.getpid(), signal.SIGTERM))
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL, (
                "it would end the process that closes"
            )
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    async with asyncio.timeout(10):
        while any(thread.name == "effectlog-signals" for thread in threading.enumerate()):
            await asyncio.sleep(0.01)
