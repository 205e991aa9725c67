"""A log that is inherited by a fork or never closed: no hang, no damage, nothing acknowledged is lost."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from support.whole_records import whole_records, whole_records_sync

from effectlog import EffectLog, StoreClosed, durable_task

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


@durable_task
def note(text: str) -> str:
    return text


def in_child(work: Callable[[], None]) -> int:
    """Fork, do the work in the child, and give its exit status; a child that hangs is an error."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("the forked child hung")


async def test_a_forked_child_is_refused_at_once_and_may_open_its_own(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.db")
    async with EffectLog(path, check_store=False) as log:
        await log.enqueue(note, "parent")

        def refused() -> None:
            with pytest.raises(StoreClosed, match="forked child"):
                log.sync.list_runs()
            log.sync.close()

        def opens_its_own() -> None:
            with EffectLog(path, check_store=False) as own:
                own.sync.enqueue(note, "child")

        assert await asyncio.to_thread(in_child, refused) == 0
        assert await asyncio.to_thread(in_child, opens_its_own) == 0
        await log.enqueue(note, "after")
        texts = [record.args["text"] for record in await whole_records(log)]
    assert sorted(texts) == ["after", "child", "parent"]
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_the_blocking_log_of_a_parent_is_refused_in_its_child(tmp_path: Path) -> None:
    """F139: the loop behind ``log.sync`` has no thread in the child, and nobody may wait for it."""
    path = str(tmp_path / "runs.db")
    with EffectLog(path, check_store=False) as log, log.sync.worker():
        run = log.sync.enqueue(note, "parent")

        def refused() -> None:
            for call in (lambda: log.sync.enqueue(note, "child"), log.sync.list_runs, run.record):
                with pytest.raises(StoreClosed, match="forked child"):
                    call()
            log.sync.close()

        def opens_its_own() -> None:
            with EffectLog(path, check_store=False) as own:
                own.sync.enqueue(note, "child")

        assert in_child(refused) == 0
        assert in_child(opens_its_own) == 0
        assert run.result(10) == "parent"
        assert sorted(record.args["text"] for record in whole_records_sync(log)) == ["child", "parent"]


def test_forks_while_the_engine_writes_never_hang(tmp_path: Path) -> None:
    """F139: some child inherits whatever lock a thread held in that moment."""
    path = str(tmp_path / "runs.db")
    with EffectLog(path, check_store=False) as log:
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                log._engine.commit_sync()

        writers = [threading.Thread(target=write) for _ in range(2)]
        for writer in writers:
            writer.start()

        def child() -> None:
            with pytest.raises(StoreClosed):
                log._engine.commit_sync()
            with pytest.raises(StoreClosed):
                log._engine.call(asyncio.sleep(0))
            log._engine.close()

        try:
            assert [in_child(child) for _ in range(20)] == [0] * 20
        finally:
            stop.set()
            for writer in writers:
                writer.join()
        log.sync.enqueue(note, "alive")
        assert len(log.sync.list_runs()) == 1


FORGOTTEN = """
import asyncio, sys
from effectlog import EffectLog, durable_task

@durable_task(name="forgotten.note")
def note(text: str) -> str:
    return text

async def main() -> None:
    log = EffectLog(sys.argv[1], check_store=False)
    await log.__aenter__()
    await log.enqueue(note, "kept")
    if sys.argv[2] == "worker":
        await log.worker().__aenter__()
    if sys.argv[2] == "raise":
        raise RuntimeError("on the way")

def sync_main() -> None:
    log = EffectLog(sys.argv[1], check_store=False).__enter__()
    log.sync.enqueue(note, "kept")

sync_main() if sys.argv[2] == "sync" else asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["plain", "worker", "raise", "sync"])
def test_a_forgotten_close_neither_hangs_nor_loses_what_was_acknowledged(tmp_path: Path, how: str) -> None:
    path = str(tmp_path / "runs.db")
    done = subprocess.run(
        [sys.executable, "-c", FORGOTTEN, path, how], capture_output=True, text=True, timeout=15, check=False
    )
    assert done.returncode == (1 if how == "raise" else 0), done.stderr
    if how != "raise":
        assert "Exception" not in done.stderr
        assert "Traceback" not in done.stderr
    with closing(sqlite3.connect(path)) as connection, connection:
        ((count,),) = connection.execute("SELECT count(*) FROM effectlog_runs")
    connection.close()
    assert count == 1
