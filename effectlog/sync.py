"""``log.sync``: the log's operations for code without an event loop.

One portal loop on a thread of its own runs the async originals; user coroutines run there too, never
on the engine's loop. Nothing is implemented twice.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from effectlog.attempt.in_flight import running_loop
from effectlog.engine.green_threads import refuse_green_threads
from effectlog.engine.pending_futures import Owed
from effectlog.errors import ConfigurationError, EffectLogError, StoreClosed
from effectlog.store.caller_transactions import without_waiting

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import TracebackType

    from effectlog.clock import Duration
    from effectlog.decorators.task import Task
    from effectlog.model import Applied, NotApplied, RunRecord, RunState, RunSummary
    from effectlog.runs.operations import RunOperations
    from effectlog.runs.run import Run
    from effectlog.runs.within import BlockingWithin
    from effectlog.worker.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

logger = logging.getLogger("effectlog")
R_co = TypeVar("R_co", covariant=True)


_LET_GO = 5.0
"""Seconds that what was interrupted gets to release what it holds."""


class Portal:
    """A loop on a daemon thread that sync code hands coroutines to."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._owed = Owed()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._forgotten: weakref.finalize[..., Any] | None = None

    def call(self, coroutine: Coroutine[Any, Any, T], twin: str) -> T:
        """Run the coroutine and return its result; ``twin`` is what a coroutine should use instead."""
        if running_loop() is not None:
            coroutine.close()
            raise ConfigurationError(
                "log.sync was used from a coroutine, where it would block the event loop; use 'await "
                f"{twin}' there"
            )
        over = threading.Event()
        try:
            loop = self._running()
        except BaseException:
            coroutine.close()
            raise
        told = _told(coroutine, over)
        try:
            future = self._owed.add(asyncio.run_coroutine_threadsafe(told, loop))
        except RuntimeError:  # Its thread has just closed it.
            told.close()
            coroutine.close()
            raise _lost() from None
        try:
            return future.result()
        except BaseException:
            if not over.is_set() and not future.done():
                # Ctrl-C while waiting: what runs on the portal is cancelled, and gets to release what it
                # holds.
                future.cancel()
                over.wait(_LET_GO)
            raise

    def _running(self) -> asyncio.AbstractEventLoop:
        self._leave_the_parents_behind()
        with self._lock:
            if self._loop is None:
                refuse_green_threads()
                self._loop, self._closing, self._owed = asyncio.new_event_loop(), threading.Event(), Owed()
                self._thread = threading.Thread(
                    target=_serve,
                    args=(self._loop, self._closing, self._owed),
                    name="effectlog-sync",
                    daemon=True,
                )
                self._thread.start()
                self._forgotten = weakref.finalize(self, _stop, self._loop, self._closing)
                self._forgotten.atexit = False  # It is a daemon's.
            return self._loop

    def _leave_the_parents_behind(self) -> None:
        """In a forked child the loop has no thread, and the lock may be held for ever: begin anew."""
        if os.getpid() != self._pid:
            self._lock = threading.Lock()
            self._loop = self._thread = None
            self._pid = os.getpid()

    def close(self) -> None:
        """End the loop and its thread."""
        self._leave_the_parents_behind()
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        last = loop.shutdown_asyncgens()
        try:
            self._owed.add(asyncio.run_coroutine_threadsafe(last, loop)).result()
        except (StoreClosed, RuntimeError):  # Its thread has ended before.
            last.close()
        if self._forgotten is not None:
            self._forgotten.detach()
        _stop(loop, self._closing)
        thread.join()


def _stop(loop: asyncio.AbstractEventLoop, closing: threading.Event) -> None:
    closing.set()
    with contextlib.suppress(RuntimeError):  # Its thread has closed it.
        loop.call_soon_threadsafe(loop.stop)


def _serve(loop: asyncio.AbstractEventLoop, closing: threading.Event, owed: Owed) -> None:
    """Run the loop until the portal is closed: user code must not end it while others wait for it."""
    try:
        while not closing.is_set():
            # An exit that user code asks for is what its task ended with; asyncio lets it leave the loop as
            # well.
            with contextlib.suppress(KeyboardInterrupt, SystemExit):
                loop.run_forever()
    except BaseException as error:
        logger.critical("effectlog: the thread of log.sync ended", exc_info=error)
    finally:
        owed.fail(_lost)
        loop.close()


def _lost() -> StoreClosed:
    return StoreClosed(
        "the thread behind log.sync has ended, and with it what ran there: close the log and open it "
        "again; what was not answered may be stored or not"
    )


async def _told(coroutine: Coroutine[Any, Any, T], over: threading.Event) -> T:
    try:
        return await coroutine
    finally:
        over.set()


class SyncRunOperations:
    """``RunOperations`` for code without an event loop.

    Each method does what the method of that name does there.
    """

    def __init__(self, log: RunOperations) -> None:
        self._log = log
        self._portal = Portal()

    def get_run(self, run_id: str) -> SyncRun[Any]:
        """As ``EffectLog.get_run``."""
        return self._run(self._call(self._log.get_run(run_id), "log.get_run(...)"))

    def list_runs(
        self,
        *,
        state: RunState | str | None = None,
        task: Any = None,
        limit: int = 100,
        before: str | None = None,
    ) -> list[RunSummary]:
        """As ``EffectLog.list_runs``."""
        found = self._log.list_runs(state=state, task=task, limit=limit, before=before)
        return self._call(found, "log.list_runs(...)")

    def cancel_runs(
        self,
        *,
        state: RunState | str | None = None,
        task: Any = None,
        limit: int | None = None,
        before: str | None = None,
        force: bool = False,
    ) -> list[str]:
        """As ``EffectLog.cancel_runs``."""
        done = self._log.cancel_runs(state=state, task=task, limit=limit, before=before, force=force)
        return self._call(done, "log.cancel_runs(...)")

    def retry_runs(
        self,
        *,
        state: RunState | str | None = None,
        task: Any = None,
        limit: int | None = None,
        before: str | None = None,
        force: bool = False,
    ) -> list[str]:
        """As ``EffectLog.retry_runs``."""
        done = self._log.retry_runs(state=state, task=task, limit=limit, before=before, force=force)
        return self._call(done, "log.retry_runs(...)")

    def purge(self, older_than: Duration, state: RunState | str | None = None) -> int:
        """As ``EffectLog.purge``."""
        return self._call(self._log.purge(older_than, state), "log.purge(...)")

    def resolve(
        self,
        run_id: str,
        effect_key: str,
        answer: Applied | NotApplied,
        *,
        by: str,
        evidence: str | None = None,
        if_requests: int | None = None,
    ) -> None:
        """As ``EffectLog.resolve``."""
        resolving = self._log.resolve(
            run_id, effect_key, answer, by=by, evidence=evidence, if_requests=if_requests
        )
        self._call(resolving, "log.resolve(...)")

    def _call(self, coroutine: Coroutine[Any, Any, T], twin: str) -> T:
        return self._portal.call(coroutine, twin)

    def _run(self, run: Run[R]) -> SyncRun[R]:
        return SyncRun(run, self._portal)


class SyncWithin:
    """``Within`` over a blocking driver."""

    def __init__(self, within: BlockingWithin, portal: Portal) -> None:
        self._within = within
        self._portal = portal

    def enqueue(self, task: Task[P, R, Any], /, *args: P.args, **kwargs: P.kwargs) -> SyncRun[R]:
        """As ``Within.enqueue``."""
        return SyncRun(without_waiting(self._within.enqueue(task, *args, **kwargs)), self._portal)

    def emit(
        self,
        event: str,
        payload: Any,
        *,
        idempotency_key: str | None = None,
        correlation_id: str | None = None,
    ) -> list[SyncRun[Any]]:
        """As ``Within.emit``."""
        emitted = self._within.emit(
            event, payload, idempotency_key=idempotency_key, correlation_id=correlation_id
        )
        return [SyncRun(run, self._portal) for run in without_waiting(emitted)]


class SyncRun(Generic[R_co]):
    """``Run`` for code without an event loop."""

    def __init__(self, run: Run[R_co], portal: Portal) -> None:
        self._run = run
        self._portal = portal

    def __repr__(self) -> str:
        return f"Sync{self._run!r}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SyncRun) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self._run)

    @property
    def id(self) -> str:
        """As ``Run.id``."""
        return self._run.id

    @property
    def created(self) -> bool:
        """As ``Run.created``."""
        return self._run.created

    def result(self, timeout: Duration | None = None) -> R_co:
        """As ``Run.result``."""
        return self._portal.call(self._run.result(timeout), "run.result(...)")

    def record(self) -> RunRecord:
        """As ``Run.record``."""
        return self._portal.call(self._run.record(), "run.record()")

    def cancel(self, force: bool = False) -> RunState:
        """As ``Run.cancel``."""
        return self._portal.call(self._run.cancel(force), "run.cancel(...)")

    def retry(self, force: bool = False) -> None:
        """As ``Run.retry``."""
        self._portal.call(self._run.retry(force), "run.retry(...)")


class SyncWorker:
    """``Worker`` for ``with``: leaving it drains, leaving it by an exception releases."""

    def __init__(self, worker: Worker, portal: Portal) -> None:
        self._worker = worker
        self._portal = portal

    def __enter__(self) -> SyncWorker:
        self._portal.call(self._worker.__aenter__(), "worker.__aenter__()  # async with log.worker()")
        atexit.register(self._abandon)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        atexit.unregister(self._abandon)
        self._portal.call(self._worker.__aexit__(kind, error, trace), "worker.__aexit__(...)")

    def _abandon(self) -> None:
        """At the end of a process that never left the worker: it did not crash."""
        if self._worker.inherited:
            return  # And a process that ends starts no thread to ask on.
        with contextlib.suppress(EffectLogError):
            self._portal.call(self._worker.abandon(), "worker.release()")

    def drain(self, timeout: Duration | None = None) -> bool:
        """As ``Worker.drain``."""
        return self._portal.call(self._worker.drain(timeout), "worker.drain(...)")
