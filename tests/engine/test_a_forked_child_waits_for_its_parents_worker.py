"""Danger: a worker's child is forked, leaves the worker's block, and waits for ever for what goes on in its parent."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

# The parent goes on only when the child is gone: a child that hangs is ended by its alarm.
PROGRAM = """
import asyncio, os, signal, sys
from effectlog import ConfigurationError, EffectLog, durable_task

path, how = sys.argv[1:]
parent = os.getpid()

@durable_task(name="forked.note")
def note(text: str) -> str:
    return text

def fork() -> None:
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)
        if how.startswith("raise"):
            raise RuntimeError("in the child")
        if how.startswith("exit"):
            sys.exit(7)
        return
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print("child", status, flush=True)

def sync_worker() -> None:
    with EffectLog(path, check_store=False) as log, log.sync.worker() as worker:
        assert log.sync.enqueue(note, "before").result(10) == "before"
        fork()
        if os.getpid() != parent:
            try:
                worker.drain()
            except ConfigurationError as error:
                assert "belongs to process" in str(error)
            else:
                raise AssertionError("drained in the child")
            return
        assert log.sync.enqueue(note, "after").result(10) == "after"

def sync_run() -> None:
    with EffectLog(path, check_store=False) as log:
        assert log.sync.run(note, "before") == "before"
        fork()
        if os.getpid() != parent:
            return
        assert log.sync.run(note, "after") == "after"

def reopened() -> None:
    log = EffectLog(path, check_store=False)
    with log, log.sync.worker():
        assert log.sync.run(note, "before") == "before"
    fork()
    with log, log.sync.worker():
        assert log.sync.run(note, "after") == "after"
        assert log.sync.enqueue(note, "later").result(10) == "later"

async def async_worker() -> None:
    async with EffectLog(path, check_store=False) as log, log.worker():
        assert await (await log.enqueue(note, "before")).result(10) == "before"
        assert await log.run(note, "here") == "here"
        fork()
        if os.getpid() == parent:
            assert await (await log.enqueue(note, "after")).result(10) == "after"
    if os.getpid() != parent:
        os._exit(0)  # What is left of asyncio's loop is shared with the parent, and closing it there would stop both.

def forgotten() -> None:
    log = EffectLog(path, check_store=False).__enter__()
    log.sync.worker().__enter__()
    assert log.sync.enqueue(note, "before").result(10) == "before"
    fork()

way = how.split()[-1]
asyncio.run(async_worker()) if way == "async" else {
    "sync": sync_worker, "run": sync_run, "reopened": reopened, "forgotten": forgotten
}[way]()
if os.getpid() != parent:
    sys.exit(0)
print("parent done")
"""

LEFT = {"leave": 0, "raise": 1, "exit": 7}
WAYS = [f"{how} {way}" for how in LEFT for way in ("sync", "run", "forgotten")] + [
    "leave reopened",
    "leave async",
]


@pytest.mark.parametrize("how", WAYS)
def test_the_child_leaves_at_once_and_the_parent_works_on(tmp_path: Path, how: str) -> None:
    ended = _run(tmp_path, how)
    assert ended.stdout.splitlines() == [f"child {LEFT[how.split(maxsplit=1)[0]]}", "parent done"], (
        ended.stderr
    )
    assert ended.returncode == 0, ended.stderr
    assert "never awaited" not in ended.stderr
    assert "new thread" not in ended.stderr
    if not how.startswith("raise"):
        assert "Traceback" not in ended.stderr, ended.stderr


def _run(folder: Path, how: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM, str(folder / "runs.db"), how],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
