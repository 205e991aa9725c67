"""Danger: Windows' loop has no ``add_signal_handler``, and a worker that asks it for one never serves."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from effectlog import EffectLog

if TYPE_CHECKING:
    from collections.abc import Iterator

WINDOWS_LOOP = Path(__file__).parents[1] / "windows_loop"

SERVING = """
import asyncio, os, signal, sys, time
from effectlog import EffectLog, durable_task

path, how = sys.argv[1:]

@durable_task(name="served.stubborn")
async def stubborn() -> None:
    print("at work", flush=True)
    await asyncio.sleep(60)

@durable_task(name="served.forking")
def forking() -> int:
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writes, b"!")
        time.sleep(60)
        os._exit(0)
    os.read(reads, 1)
    os.kill(pid, signal.SIGTERM)  # As multiprocessing ends its processes.
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

async def main() -> None:
    try:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, print)
    except NotImplementedError:
        pass
    else:
        raise AssertionError("this loop has signal handlers")
    async with EffectLog(path, check_store=False) as log:
        run = await log.enqueue(forking if how == "fork" else stubborn) if how != "idle" else None

        async def tell() -> None:
            print("ended", await run.result(30), flush=True)

        telling = asyncio.create_task(tell()) if how == "fork" else None
        await log.worker().serve(ready=lambda: print("ready", flush=True))
        if run is not None:
            print((await run.record()).state.value, flush=True)
    print("closed", flush=True)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

asyncio.run(main())
"""


@contextmanager
def serving(db: Path, how: str) -> Iterator[subprocess.Popen[str]]:
    environment = os.environ | {"PYTHONPATH": str(WINDOWS_LOOP)}
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SERVING, str(db), how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert line(process) == "ready"
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_worker_hears_a_signal_and_leaves(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path / "runs.db", "idle") as process:
        process.send_signal(number)
        assert line(process) == "closed"
        assert process.wait(10) == 0


def test_a_second_signal_gives_back_what_is_at_work(tmp_path: Path) -> None:
    with serving(tmp_path / "runs.db", "busy") as process:
        assert line(process) == "at work"
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert line(process) == "pending"
        assert line(process) == "closed"
        assert process.wait(10) == 0


def test_a_signal_to_a_forked_child_is_not_its_parents(tmp_path: Path) -> None:
    """What Python writes of a signal, the child writes into the socket that it shares with its parent's worker."""
    with serving(tmp_path / "runs.db", "fork") as process:
        assert line(process) == f"ended {-signal.SIGTERM}"
        process.send_signal(signal.SIGTERM)
        assert line(process) == "succeeded"
        assert line(process) == "closed"
        assert process.wait(10) == 0


async def test_a_serve_that_failed_keeps_no_later_one_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    async with EffectLog(tmp_path / "runs.db", check_store=False) as log:
        with monkeypatch.context() as failing:
            failing.setattr(socket, "socketpair", _no_more_files)
            with pytest.raises(OSError, match="no more files"):
                await log.worker().serve()
        with monkeypatch.context() as failing:
            failing.setattr("threading.Thread.start", _no_more_files)
            with pytest.raises(OSError, match="no more files"):
                await log.worker().serve()
        assert {number: signal.getsignal(number) for number in before} == before
        ready = asyncio.Event()
        serving = asyncio.create_task(log.worker().serve(ready=ready.set))
        await ready.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await serving
    assert {number: signal.getsignal(number) for number in before} == before


async def test_a_handler_that_the_loop_had_is_there_again_afterwards(tmp_path: Path) -> None:
    loop, heard, ready = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    try:
        loop.add_signal_handler(signal.SIGTERM, heard.set)
    except NotImplementedError:
        pytest.skip("this loop takes none")
    try:
        async with EffectLog(tmp_path / "runs.db", check_store=False) as log:
            serving = asyncio.create_task(log.worker().serve(ready=ready.set))
            await ready.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            await serving
            assert not heard.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(heard.wait(), 10)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def _no_more_files(*_: object) -> None:
    raise OSError("no more files")
