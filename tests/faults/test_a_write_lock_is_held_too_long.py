"""Danger: somebody keeps a write transaction on the file open, and workers stay wedged after it has ended."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from effectlog import EffectLog, Retry, StoreError, durable_task, effect
from effectlog.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BUSY_TIMEOUT = 0.2
requested: list[str] = []
go_on = threading.Event()


@effect(key="{name}")
async def ask(name: str) -> str:
    requested.append(name)
    if name == "live":
        while not go_on.is_set():
            await asyncio.sleep(0.005)
    return name


@durable_task(retry=Retry(delay=0.0))
async def talk(first: str) -> list[str]:
    return [await ask(first), await ask(f"after {first}")]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep a write transaction open, as a process would that was stopped in the middle of one."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


async def test_live_effects_and_claims_go_on_by_themselves_once_it_is_free(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    requested.clear()
    go_on.clear()
    store = SqliteStore(tmp_path / "runs.db", busy_timeout=BUSY_TIMEOUT)
    async with EffectLog(store, lease=10.0) as log, log.worker():
        live = await log.enqueue(talk, "live")
        async with asyncio.timeout(10):
            while not requested:
                await asyncio.sleep(0.01)
        with locked(tmp_path / "runs.db"):
            go_on.set()  # The effect returns while nothing can be written.
            with pytest.raises(StoreError, match="store locked by another connection") as refused:
                await log.enqueue(talk, "refused")
            assert refused.value.transient
            await asyncio.sleep(3 * BUSY_TIMEOUT)
            assert requested == ["live"], "an effect started though its record could not be written"
            assert (await live.record()).attempts[0].ended_at is None
        assert await live.result(10) == ["live", "after live"]
        assert len((await live.record()).attempts) == 1
        later = await log.enqueue(talk, "later")
        assert await later.result(10) == ["later", "after later"]
        assert len(await log.list_runs()) == 2, "an enqueue that was refused left a run"
    assert requested == ["live", "after live", "later", "after later"]


async def test_a_worker_whose_claims_fail_claims_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    requested.clear()
    path = tmp_path / "runs.db"
    async with EffectLog(
        path
    ) as other:  # Prepared, so that the worker's own start needs no more than a claim.
        run = await other.enqueue(talk.with_options(delay=0.5), "due in between")
        store = SqliteStore(path, busy_timeout=BUSY_TIMEOUT)
        async with EffectLog(store) as log, log.worker():
            with locked(path):
                async with asyncio.timeout(10):
                    while "can't claim and tries again" not in caplog.text:
                        await asyncio.sleep(0.02)
            assert await run.result(10) == ["due in between", "after due in between"]


async def test_the_command_line_says_who_is_in_the_way_and_still_reads(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with EffectLog(path) as log:
        run = await log.enqueue(talk, "x")
    with locked(path):
        command = [sys.executable, "-m", "effectlog"]
        reading, writing = [
            subprocess.Popen(
                [*command, verb, run.id, "--store", str(path)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for verb in ("show", "cancel")
        ]
        shown, nothing = await asyncio.to_thread(reading.communicate, timeout=30)
        assert (reading.returncode, nothing) == (0, "")
        assert "pending" in shown
        _, reason = await asyncio.to_thread(writing.communicate, timeout=30)
    assert writing.returncode == 1
    assert reason.startswith("effectlog: store locked by another connection")
    assert reason.count("\n") == 1
