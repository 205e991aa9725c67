"""``crash_matrix``: crash a task at every boundary it passes, let another owner take over, and count.

Every round has a store of its own in a temporary file. In process by default; with ``kill=True`` each round
is a child process that gets a real SIGKILL, and the counts come from its destination and its records.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import signal
import tempfile
import threading
import uuid
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from effectlog.attempt.in_flight import running_loop
from effectlog.decorators.registry import declared_effect
from effectlog.decorators.task import spec_of
from effectlog.errors import EffectLogError, EffectLogWarning
from effectlog.log import EffectLog
from effectlog.model import EffectState, RunState
from effectlog.store.sqlite.store import SqliteStore
from effectlog.testing.crash_calls import DESTINATION_DOWN, LOST_ANSWER, Calls, WatchedLog, sends_heard
from effectlog.testing.crash_points import Boundary, StoppingStore, kill_this_process
from effectlog.testing.crash_report import CrashReport, CrashResult, judge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from effectlog.decorators.task import Task
    from effectlog.model import RunRecord

FAULTS = ("crash", "stale owner", LOST_ANSWER, DESTINATION_DOWN)
LEASE = 30.0
ROUND_TIMEOUT = 30.0
"""Seconds that one round may take before the matrix gives up."""
LONGEST_DELAY = timedelta(seconds=5)
"""A run that waits for longer, for its time or for a retry, is reported as waiting."""
_LOOK = 0.2
"""Seconds between two looks at whether a run waits."""


def crash_matrix(  # noqa: D417 - the task's own arguments are described with it
    task: Task[..., Any, Any],
    *args: Any,
    faults: tuple[str, ...] = FAULTS,
    kill: bool = False,
    **kwargs: Any,
) -> CrashReport:
    """Run a task once without a fault, then once for each fault at each place, and report.

    The task's effects are really called, several times each: point them at destinations made for
    tests. Callable from sync and from async tests (it then blocks the loop; use ``run_matrix``
    where the destination lives on it).

    Args:
        task: the durable task; ``args`` and ``kwargs`` are its arguments.
        faults: which kinds: ``"crash"`` before and after each record, ``"stale owner"`` (paused there, comes
            back when another owner has finished), ``"lost answer"`` and ``"destination down"`` for each
            effect.

    """
    matrix = run_matrix(task, *args, faults=faults, kill=kill, **kwargs)
    if running_loop() is None:
        return asyncio.run(matrix)
    outcome: list[CrashReport | BaseException] = []
    thread = threading.Thread(target=lambda: outcome.append(_caught(matrix)))
    thread.start()
    thread.join()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def _caught(matrix: Any) -> CrashReport | BaseException:
    try:
        report: CrashReport = asyncio.run(matrix)
    except BaseException as error:
        return error
    return report


async def run_matrix(
    task: Task[..., Any, Any],
    *args: Any,
    faults: tuple[str, ...] = FAULTS,
    kill: bool = False,
    **kwargs: Any,
) -> CrashReport:
    """As ``crash_matrix``, awaited."""
    rounds = _Rounds(task, args, kwargs)
    with tempfile.TemporaryDirectory(prefix="effectlog-matrix-") as folder, _quiet():
        rounds.folder = Path(folder)
        await rounds.without_fault()
        if "crash" in faults:
            for boundary in rounds.boundaries[:-1]:  # After the end there is nothing left to crash.
                await (rounds.kill(boundary) if kill else rounds.crash(boundary))
        if "stale owner" in faults:
            for boundary in rounds.boundaries[:-1]:
                if boundary.moment == "before" and boundary.record != "started":
                    await rounds.stale_owner(boundary)
        for kind in (LOST_ANSWER, DESTINATION_DOWN):
            if kind in faults:
                for key in rounds.expected:
                    await rounds.spoiled_answer(key, kind)
    return CrashReport(spec_of(task).name, tuple(rounds.results))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Simulated crashes are no news: neither logged nor warned about."""
    logger = logging.getLogger("effectlog")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EffectLogWarning)
            yield
    finally:
        logger.setLevel(level)


class _Rounds:
    """The rounds of one matrix."""

    def __init__(self, task: Task[..., Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._original = task
        self._task = task.with_options(idempotency_key="matrix")
        self._args = args
        self._kwargs = kwargs
        self.folder = Path()
        self.boundaries: list[Boundary] = []
        self.expected: dict[str, str] = {}
        self.keyed: set[str] = set()
        self.results: list[CrashResult] = []

    def _store(self, path: Path) -> SqliteStore:
        return SqliteStore(path)

    async def _execute(self, log: EffectLog) -> None:
        running = asyncio.ensure_future(log.run(self._task, *self._args, **self._kwargs))
        try:
            while not (await asyncio.wait({running}, timeout=_LOOK))[0]:
                if await self._is_postponed(log):
                    break
        finally:
            running.cancel()
        with contextlib.suppress(
            EffectLogError, asyncio.CancelledError
        ):  # How it ended stands in its record.
            await running

    async def _is_postponed(self, log: EffectLog) -> bool:
        """Whether the run waits for a time that no test should wait for."""
        with contextlib.suppress(EffectLogError):
            soon = datetime.now(UTC) + LONGEST_DELAY
            return any(run.state is RunState.PENDING and run.due_at > soon for run in await log.list_runs())
        return False

    async def _record(self, log: EffectLog) -> RunRecord:
        (summary,) = await log.list_runs()
        return await (await log.get_run(summary.id)).record()

    async def _finish(self, path: Path, calls: Calls) -> RunRecord:
        """The next owner: takes over and executes to the end."""
        async with asyncio.timeout(ROUND_TIMEOUT), WatchedLog(self._store(path), calls, lease=LEASE) as log:
            await self._execute(log)
            return await self._record(log)

    def _judge(self, fault: str, record: RunRecord, calls: Calls) -> None:
        self.results.append(judge(fault, record, calls, declared_effect, self.expected))

    async def without_fault(self) -> None:
        path = self._path()
        store = StoppingStore(self._store(path))
        with sends_heard(Calls()) as calls:
            async with WatchedLog(store, calls, lease=LEASE, check_store=False) as log:
                await self._execute(log)
                record = await self._record(log)
        self.boundaries = store.boundaries.passed
        self.expected = {effect.key: effect.name for effect in record.effects}
        self.keyed = calls.keyed
        self._judge("none", record, calls)

    def _path(self) -> Path:
        return self.folder / f"{uuid.uuid4().hex}.db"

    async def crash(self, boundary: Boundary) -> None:
        path = self._path()
        with sends_heard(Calls()) as calls:
            store = StoppingStore(self._store(path), boundary)
            first = WatchedLog(store, calls, lease=LEASE, check_store=False)
            with contextlib.suppress(EffectLogError):
                async with first:
                    await self._execute(first)
            record = await self._finish(path, calls)
        self._judge(f"crash {boundary}", record, calls)

    async def kill(self, boundary: Boundary) -> None:
        """As ``crash``, with a child process and a real SIGKILL."""
        path = self._path()
        child = multiprocessing.get_context("spawn").Process(
            target=execute_until_killed, args=(str(path), boundary, self._original, self._args, self._kwargs)
        )
        await asyncio.to_thread(child.start)
        await asyncio.to_thread(child.join, ROUND_TIMEOUT)
        if child.exitcode != -signal.SIGKILL:
            child.kill()
            raise RuntimeError(
                f"the child process did not reach the boundary '{boundary}': exit {child.exitcode}"
            )
        calls = await self._calls_of_the_dead(path, boundary)
        with sends_heard(calls):
            record = await self._finish(path, calls)
        self._judge(f"kill {boundary}", record, calls)

    async def _calls_of_the_dead(self, path: Path, boundary: Boundary) -> Calls:
        """What a killed process did, by its records and by where it was killed."""
        calls = Calls(keyed=set(self.keyed))
        async with EffectLog(self._store(path), lease=LEASE) as log:
            effects = {effect.key: effect for effect in (await self._record(log)).effects}
        for key, effect in effects.items():
            announced_only = boundary == Boundary("after", "started", key, effect.requests - 1)
            calls.requests[key] = effect.requests - announced_only
            returned_last = boundary == Boundary("before", "completed", key, effect.requests - 1)
            calls.accepted[key] = int(effect.state is EffectState.COMPLETED or returned_last)
        return calls

    async def stale_owner(self, boundary: Boundary) -> None:
        """The owner stops at the boundary; another one takes over and finishes; then the first goes on."""
        path = self._path()
        paused, go_on = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        async def pause() -> None:  # On the engine's loop.
            store.inner.liveness.abandon()
            loop.call_soon_threadsafe(paused.set)
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_wait(go_on), loop))

        store: Any = StoppingStore(self._store(path), boundary, pause)
        with sends_heard(Calls()) as calls:
            log = WatchedLog(store, calls, lease=LEASE, check_store=False)
            async with asyncio.timeout(ROUND_TIMEOUT), log:
                first = asyncio.create_task(self._execute(log))
                # A body that takes another branch than the first time never comes to the boundary.
                reached = asyncio.create_task(_wait(paused))
                try:
                    await asyncio.wait({first, reached}, return_when=asyncio.FIRST_COMPLETED)
                    await self._finish(path, calls)
                finally:
                    reached.cancel()
                    go_on.set()
                await first
                record = await self._record(log)
        self._judge(f"stale owner {boundary}", record, calls)

    async def spoiled_answer(self, key: str, kind: str) -> None:
        path = self._path()
        with sends_heard(Calls(fault=(key, kind))) as calls:
            record = await self._finish(path, calls)
        self._judge(f"{kind} {key}", record, calls)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


def execute_until_killed(
    path: str, boundary: Boundary, task: Task[..., Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """The child process of one round."""

    async def main() -> None:
        store = StoppingStore(SqliteStore(path), boundary, kill_this_process)
        async with EffectLog(store, lease=LEASE, check_store=False) as log:
            await log.run(task.with_options(idempotency_key="matrix"), *args, **kwargs)

    asyncio.run(main())
