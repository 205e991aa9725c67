"""Danger: the store can't be written, and its run is called damaged, or the user's own process is blamed."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from effectlog import EffectLog, JsonCodec, RunState, durable_task, effect
from effectlog.errors import StoreTrouble
from effectlog.store import commands as c
from effectlog.store.rows import NewRun
from effectlog.store.sqlite.errors import translated
from effectlog.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORKER = """
import asyncio, logging, sys
from effectlog import EffectLog, durable_task

@durable_task(name="t")
async def t() -> str:
    return "done"

async def main() -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    async with EffectLog(sys.argv[1], check_store=False) as log, log.worker():
        print("ready", file=sys.stderr, flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


@contextlib.contextmanager
def a_worker(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Leaves when its input ends; what it says is to be read from its stderr."""
    command = [sys.executable, "-c", WORKER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def until_said(process: subprocess.Popen[str], *words: str) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if all(word in line for word in words):
            return line
    raise AssertionError(f"it never said {words}")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits another process")
async def test_a_takeover_that_the_system_refused_to_write_comes_as_soon_as_it_can(tmp_path: Path) -> None:
    import resource

    path = tmp_path / "runs.db"
    store = SqliteStore(path)
    await store.open()
    await store.apply([c.CreateRuns((NewRun(id="r", task="t", args=b"[[],{}]"),), "t")])
    await store.apply([c.Claim("gone", "gone", 600.0, (c.TaskLimit(("t",)),), 1)])
    with a_worker(path) as worker:
        until_said(worker, "ready")
        before = resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        await store.apply([c.Renew("gone", 0.05, (c.Fence("r", 1),))])
        said = until_said(worker, "could not read or write it")
        resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, before)
        free = time.monotonic()
        async with asyncio.timeout(20):
            while (await store.states(["r"]))["r"] is RunState.RUNNING:
                await asyncio.sleep(0.02)
        took = time.monotonic() - free
    await store.close()
    assert "can't be taken over" not in said, "the run was blamed"
    assert "SQLITE_IOERR" in said
    assert took < 8.0


@pytest.mark.parametrize(
    "code",
    [sqlite3.SQLITE_IOERR, sqlite3.SQLITE_IOERR | 3 << 8, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL],
)
def test_what_the_system_refuses_is_the_stores_trouble(code: int) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    assert translated(error, "x").reason is StoreTrouble.TAKES_NO_WRITES


requested = threading.Event()


@effect(key="first")
async def first() -> None:
    requested.set()


@durable_task
async def outlasts_its_lease() -> None:
    began_before = requested.is_set()
    await first()
    while not began_before:
        await asyncio.sleep(0.01)


async def test_a_lease_that_the_store_did_not_renew_is_not_blamed_on_the_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    requested.clear()
    path = tmp_path / "runs.db"
    store = SqliteStore(path, busy_timeout=0.1)
    async with EffectLog(store, lease=1.2, check_store=False) as log, log.worker():
        run = await log.enqueue(outlasts_its_lease)
        async with asyncio.timeout(10):
            while not requested.is_set():
                await asyncio.sleep(0.01)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            async with asyncio.timeout(10):
                while "no longer owns its run" not in caplog.text:
                    await asyncio.sleep(0.01)
            connection.execute("ROLLBACK")
        (told,) = [text for text in caplog.messages if "no longer owns its run" in text]
        await run.result(20)
        lost = (await run.record()).attempts[0].error
    assert "the store did not renew it" in told
    assert "locked by another connection" in told
    assert "interpreter lock" not in told
    assert lost is not None
    assert "locked by another connection" in lost.message, "who takes over in the same process knows it too"


def test_a_process_that_was_late_itself_does_not_blame_the_store() -> None:
    from effectlog.engine.runtime import Runtime
    from effectlog.keys import Seals
    from effectlog.worker.owner import Owner

    engine: Any = None  # Never asked for anything.
    owner = Owner(Runtime(engine, JsonCodec(), Seals(), 100, lease=0.3, heartbeat=0.1), "w")
    owner._refused, owner._refused_until = "locked", time.monotonic() + 60
    assert owner.store_trouble() == "locked"
    owner._looked_at -= 1.0
    assert owner.store_trouble() == ""
    owner._look()
    assert owner.store_trouble() == "", "it was late, and came back"
