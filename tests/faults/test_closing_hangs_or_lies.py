"""Danger: the loop ends, or the log is closed, in the middle of work: a call hangs, or a thread outlives its loop."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from support.fault_processes import whole

from effectlog import EffectLog, EffectLogError, NotApplied, Retry, StoreClosed, durable_task, effect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

AT_ONCE = 10.0
"""Seconds that an answer may take which is called immediate, on a machine that is busy; one that waits hangs.
"""


@effect(key="{number}")
async def write(number: int) -> str:
    return "x" * 10_000


@durable_task(retry=Retry(delay=0.0))
async def writes(count: int) -> int:
    return sum([len(await write(number)) for number in range(count)])


@durable_task(retry=Retry(delay=0.0))
def writes_in_a_thread() -> int:
    return 1


def ours() -> set[threading.Thread]:
    names = ("effectlog", "_connection_worker_thread")
    return {thread for thread in threading.enumerate() if any(name in thread.name for name in names)}


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("how", ["an exception", "a cancellation of everything"])
@pytest.mark.parametrize("rounds", [8, pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(300)])])
def test_a_loop_that_ends_during_heavy_writes_ends_cleanly(
    tmp_path: Path, rounds: int, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = ours()

    async def main(path: Path, after: float) -> None:
        async with EffectLog(path, check_store=False) as log, log.worker():
            await log.enqueue_many(writes, [(100,)] * 10)
            await log.enqueue_many(writes_in_a_thread, [()] * 10)
            await asyncio.sleep(after)
            if how == "an exception":
                raise KeyboardInterrupt
            for task in asyncio.all_tasks():
                task.cancel()
            await asyncio.sleep(10)

    for number in range(rounds):
        path = tmp_path / f"{number}.db"
        with pytest.raises(KeyboardInterrupt if how == "an exception" else asyncio.CancelledError):
            asyncio.run(main(path, 0.3 * number / rounds))
        assert ours() == before, "a thread outlives its loop"
        assert whole(path)
        path.unlink()
    assert "Event loop is closed" not in caplog.text
    assert "never retrieved" not in caplog.text


def test_a_loop_that_ends_without_closing_the_log_loses_nothing_acknowledged(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    logs: list[EffectLog] = []

    async def main() -> None:
        log = EffectLog(tmp_path / "runs.db", check_store=False)
        logs.append(await log.__aenter__())
        tasks = [asyncio.ensure_future(log.enqueue(writes, 3)) for _ in range(50)]
        for task in asyncio.as_completed(tasks):
            acknowledged.append((await task).id)
            if len(acknowledged) == 20:
                return

    asyncio.run(main())
    asyncio.run(logs[0].close())
    with closing(sqlite3.connect(tmp_path / "runs.db")) as connection:
        stored = {run_id for (run_id,) in connection.execute("SELECT id FROM effectlog_runs")}
    assert set(acknowledged) <= stored


def uses(log: EffectLog) -> dict[str, Callable[[], Awaitable[object]]]:
    """Everything that a log can be asked."""
    return {
        "enqueue": lambda: log.enqueue(writes, 1),
        "enqueue_many": lambda: log.enqueue_many(writes, [(1,)]),
        "emit": lambda: log.emit("event", 1),
        "run": lambda: log.run(writes, 1),
        "get_run": lambda: log.get_run("x"),
        "list_runs": log.list_runs,
        "cancel_runs": lambda: log.cancel_runs(state="pending"),
        "retry_runs": lambda: log.retry_runs(state="failed"),
        "purge": lambda: log.purge(1.0),
        "resolve": lambda: log.resolve("x", "k", NotApplied(), by="me"),
        "worker": lambda: log.worker().__aenter__(),
        "serve": lambda: log.worker().serve(),
    }


@pytest.mark.parametrize("name", list(uses(EffectLog(":memory:"))))
async def test_use_after_close_is_refused_at_once(tmp_path: Path, name: str) -> None:
    log = EffectLog(tmp_path / "runs.db", check_store=False)
    for open_and_close in (False, True):  # Also of a log that was never open.
        if open_and_close:
            async with log:
                pass
        began = time.monotonic()
        with pytest.raises(StoreClosed):
            await uses(log)[name]()
        assert time.monotonic() - began < AT_ONCE


async def test_handles_of_a_closed_log_are_refused_at_once(tmp_path: Path) -> None:
    async with EffectLog(tmp_path / "runs.db", check_store=False) as log:
        run = await log.enqueue(writes, 1)
        waiting = asyncio.ensure_future(run.result())
        await asyncio.sleep(0.05)
    began = time.monotonic()
    for use in (lambda: waiting, run.result, run.record, run.cancel, run.retry):
        with pytest.raises(StoreClosed):
            await use()
    assert time.monotonic() - began < AT_ONCE


async def test_calls_beside_a_close_are_answered_one_way_or_the_other(tmp_path: Path) -> None:
    answers: list[object] = []
    for number in range(20):
        log = EffectLog(tmp_path / f"{number}.db", check_store=False)
        await log.__aenter__()
        names = [name for name in uses(log) if name not in ("worker", "serve", "run")]
        before = [asyncio.ensure_future(uses(log)[name]()) for name in names]
        for _ in range(number % 10):
            await asyncio.sleep(0)
        close = asyncio.ensure_future(log.close())
        for _ in range(number // 2):
            await asyncio.sleep(0)
        beside = [asyncio.ensure_future(uses(log)[name]()) for name in names]
        _, pending = await asyncio.wait([close, *before, *beside], timeout=10)
        assert not pending, "a call beside a close was never answered"
        answers += await asyncio.gather(*before, *beside, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, StoreClosed)]
    assert all(
        not isinstance(answer, BaseException) or isinstance(answer, EffectLogError) for answer in answers
    )
    assert 0 < len(refused) < len(answers), "nothing came too late, or everything, so nothing was tried"


def test_the_sync_face_of_a_closed_log_is_refused_at_once(tmp_path: Path) -> None:
    log = EffectLog(tmp_path / "runs.db", check_store=False)
    with log:
        run = log.sync.enqueue(writes, 1)
    began = time.monotonic()
    for use in (run.record, run.result, log.sync.list_runs, lambda: log.sync.enqueue(writes, 1)):
        with pytest.raises(StoreClosed):
            use()
    assert time.monotonic() - began < AT_ONCE
    log.sync.close()
