"""Danger: the engine's thread, or the one behind ``log.sync``, ends, and everybody who asked it something waits for ever."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from effectlog import EffectLog, StoreError, durable_task

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="breaks the loop's epoll descriptor")

# As a program does that closes every descriptor that it doesn't know, to become a daemon.
BREAKING = """
import os, sys, threading
from concurrent.futures import ThreadPoolExecutor
from effectlog import EffectLog, StoreClosed, durable_task

path, which, how = sys.argv[1:]

@durable_task(name="dead.note")
def note(text: str) -> str:
    return text

def end(loop) -> None:
    if how == "broken":
        os.dup2(os.open(os.devnull, os.O_RDWR), loop._selector.fileno())
        loop.call_soon_threadsafe(int)
    else:
        loop.call_soon_threadsafe(sys.exit)

def outcome(work) -> str:
    try:
        return str(work())
    except StoreClosed as error:
        return "refused"

with ThreadPoolExecutor(4) as pool:
    with EffectLog(path, check_store=False) as log:
        run = log.sync.enqueue(note, "kept")
        asked = threading.Barrier(3)
        watch = log.administration.watch

        def wait() -> str:
            asked.wait(60)
            return run.result()

        waiting = [pool.submit(outcome, wait) for _ in range(2)]
        asked.wait(60)
        while len(watch._waiters.get(run.id, ())) < 2:
            pass
        end(log._engine._loop if which == "engine" else log.sync._portal._loop)
        print(*[future.result(10) for future in waiting], flush=True)
        print(outcome(lambda: log.sync.enqueue(note, "late")), outcome(run.record), flush=True)
print("closed", flush=True)
with EffectLog(path, check_store=False) as log:
    print(len(log.sync.list_runs()), flush=True)
"""


@pytest.mark.parametrize(("which", "how"), [("engine", "broken"), ("engine", "left"), ("sync", "broken")])
def test_everybody_who_waits_is_told(tmp_path: Path, which: str, how: str) -> None:
    asked = [sys.executable, "-c", BREAKING, str(tmp_path / "runs.db"), which, how]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=40, check=False)
    told = ["refused refused", "refused refused", "closed", "1"]
    assert done.stdout.splitlines() == told, done.stderr
    assert f"the thread of {'the log on' if which == 'engine' else 'log.sync'}" in done.stderr


OPENING = """
import asyncio, os, resource, sys
from effectlog import EffectLog, StoreError

async def main() -> None:
    log = EffectLog(sys.argv[1], check_store=False)
    await asyncio.to_thread(int)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))), before[1]))
    try:
        await log.__aenter__()
    except StoreError as error:
        print(error, flush=True)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
    async with log:
        print(len(await log.list_runs()))

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts its descriptors in /proc")
def test_an_open_without_descriptors_fails_and_the_next_one_works(tmp_path: Path) -> None:
    asked = [sys.executable, "-c", OPENING, str(tmp_path / "runs.db")]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=40, check=False)
    refused, count = done.stdout.splitlines() or ["", done.stderr]
    assert "Too many open files" in refused
    assert count == "0"


@durable_task(name="dead.quiet")
def quiet() -> None:
    pass


async def test_an_open_without_a_thread_fails_and_the_next_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    log = EffectLog(tmp_path / "runs.db", check_store=False)
    with monkeypatch.context() as short:
        short.setattr("threading.Thread.start", none_left)
        with pytest.raises(StoreError, match="no thread for it: can't start new thread"):
            await log.__aenter__()
    async with log:
        await log.enqueue(quiet)
