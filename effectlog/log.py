"""``EffectLog`` and ``log.sync``: they wire store, engine, runs and workers together, and hold no rules."""

from __future__ import annotations

import asyncio
import os
import socket
import warnings
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from effectlog import telemetry
from effectlog.codec import Codec, JsonCodec
from effectlog.decorators.registry import registered
from effectlog.decorators.task import spec_of
from effectlog.engine.engine import Engine
from effectlog.engine.runtime import Runtime
from effectlog.errors import ConfigurationError, StoreClosed
from effectlog.keys import seals_of
from effectlog.runs.administration import Administration
from effectlog.runs.emit import Emitter, subscriptions_of
from effectlog.runs.enqueue import Enqueuer
from effectlog.runs.operations import RunOperations
from effectlog.runs.run_here import run_here
from effectlog.runs.within import Within
from effectlog.store import commands as c
from effectlog.store.protocol import BacksUp
from effectlog.store.resolve import resolve_store
from effectlog.sync import SyncRun, SyncRunOperations, SyncWithin, SyncWorker
from effectlog.user_warnings import users_frame
from effectlog.validation import seconds, whole
from effectlog.worker.owner import Owner, checked_lease
from effectlog.worker.signals import let_go
from effectlog.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

    from effectlog.clock import Duration
    from effectlog.decorators.spec import TaskSpec
    from effectlog.decorators.task import Task
    from effectlog.runs.run import Run
    from effectlog.store.protocol import Store

P = ParamSpec("P")
R = TypeVar("R")

MAX_VALUE_BYTES = 1024 * 1024
"""Bytes that a value may take encoded, unless ``EffectLog(max_value_bytes=)`` says otherwise."""


class EffectLog(RunOperations):
    """A log of durable runs and their effects, in one store.

    Args:
        store: a path (``"orders.db"``), a URL (``sqlite:///orders.db``, ``postgresql://…``) or a store.
        lease: seconds for which a run is owned without a sign of life from its owner.
        heartbeat: seconds between two renewals, by default a third of the lease.
        codec: turns arguments and results into bytes, by default tagged JSON.
        check_store: prove at open that the store enforces ownership; off only for experiments.
        max_value_bytes: how much one argument set or result may take, encoded.
        fingerprint_secret: keys the stored fingerprints of arguments, so that who sees only the store can't
            try out what small values they are of. Every log on the store needs the same one. Of a tuple the
            first is used for new rows, and the others to compare with older ones.

    Raises:
        ConfigurationError: a heartbeat above half of the lease, an unknown kind of store.

    """

    def __init__(
        self,
        store: str | os.PathLike[str] | Store,
        *,
        lease: Duration = 30.0,
        heartbeat: Duration | None = None,
        codec: Codec | None = None,
        check_store: bool = True,
        max_value_bytes: int = MAX_VALUE_BYTES,
        fingerprint_secret: str | bytes | Sequence[str | bytes] | None = None,
    ) -> None:
        lease, heartbeat = checked_lease(lease, heartbeat)
        most = whole(max_value_bytes, "EffectLog(max_value_bytes", least=1)
        self._check_store = check_store
        self._engine = Engine(resolve_store(store))
        self._runtime = Runtime(
            self._engine, codec or JsonCodec(), seals_of(fingerprint_secret), most, lease, heartbeat
        )
        super().__init__(Administration(self._runtime))
        self._enqueuer = Enqueuer(self._runtime, self._admin)
        self._emitter = Emitter(self._runtime, self._admin)
        self._owner: Owner | None = None
        self._workers: weakref.WeakSet[Worker] = weakref.WeakSet()
        self._sync: SyncLog | None = None
        frame = users_frame()
        self._made_at = frame.f_code.co_filename, frame.f_lineno
        self._unclosed: weakref.finalize[..., Any] | None = None

    # --- life ----------------------------------------------------------------------------------

    async def __aenter__(self) -> EffectLog:
        """Open the store.

        Raises StoreRefused where it can't be trusted, StoreError where it can't be reached.
        """
        opened = self._engine.start()
        self._owner = None  # One that was left behind by a fork is the parent's.
        try:
            await asyncio.wrap_future(opened)
            await self._prepare()
        except BaseException:
            await self.close()
            raise
        telemetry.watch(self._engine.store.name, self._engine.health)
        # Of what everybody who can use the log holds, and not of the log alone: a worker or a handle may
        # outlive it.
        self._unclosed = weakref.finalize(self._runtime.use, _forget, self._engine, *self._made_at)
        self._unclosed.atexit = False  # The engine is closed in order there.
        self._engine.forgotten = partial(_warn_unclosed, self._engine.store.name, *self._made_at)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> EffectLog:
        """As ``async with``, for code without an event loop; use ``log.sync`` then."""
        return self.sync.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sync.close()

    async def close(self) -> None:
        """Commit what was acknowledged and close the store; everything after it raises StoreClosed.

        A worker that is still at work releases its runs first, and uses up no attempt. In a forked child
        nothing is closed: all of it is its parent's.
        """
        if self._engine.inherited:
            return
        telemetry.unwatch(self._engine.store.name, self._engine.health)
        if self._unclosed is not None:
            self._unclosed.detach()
        for worker in list(self._workers):
            await worker.abandon()
        if self._owner is not None:
            await self._owner.stop()
            self._owner = None
        await asyncio.to_thread(self._engine.close)
        let_go(self._engine)

    async def _prepare(self) -> None:
        if self._check_store:
            from effectlog.store.probe import prove  # noqa: PLC0415 - once a log

            await self._engine.read(prove(self._engine.store))
        await self._subscribe(registered().values())

    async def _subscribe(self, tasks: Iterable[TaskSpec]) -> None:
        specs = list(tasks)
        names = tuple({name for spec in specs for name in spec.names})
        if names:
            await self._engine.commit(c.Subscribe(names, subscriptions_of(specs)))

    @property
    def sync(self) -> SyncLog:
        """The same operations for code without an event loop."""
        if self._sync is None:
            self._sync = SyncLog(self)
        return self._sync

    # --- making runs ---------------------------------------------------------------------------

    async def enqueue(self, task: Task[P, R, Any], /, *args: P.args, **kwargs: P.kwargs) -> Run[R]:
        """Store one call of a task; on return it is durable and any worker may execute it.

        With an idempotency key (``task.with_options(idempotency_key=…)``) the key's first run is returned.
        Inside an attempt a key is required, and an attempt that lost its run creates nothing.

        Raises:
            TypeError: for arguments that don't fit the task.
            EncodingError: for an argument that can't be stored.
            IdempotencyConflict: the key has a run with other arguments.
            StoreError: nothing was stored.

        """
        return await self._enqueuer.enqueue(task, args, kwargs)

    async def enqueue_many(
        self,
        task: Task[..., R, Any],
        calls: Iterable[tuple[Any, ...]],
        idempotency_keys: Sequence[str] | None = None,
    ) -> list[Run[R]]:
        """Store many calls, one tuple of positional arguments each, in transactions of a few hundred.

        Raises as ``enqueue``; the calls before the refused chunk are stored. For an IdempotencyConflict its
        own chunk is stored too, but for the calls that conflict, and nothing after it; ``created`` has the
        new runs' ids.
        """
        return await self._enqueuer.enqueue_many(task, calls, idempotency_keys)

    async def emit(
        self,
        event: str,
        payload: Any,
        *,
        idempotency_key: str | None = None,
        correlation_id: str | None = None,
    ) -> list[Run[Any]]:
        """Make one run for each task subscribed to the event, all in one transaction.

        A repeated key returns the same runs. Raises NoSubscriber, and records nothing, if no task is
        subscribed; else as ``enqueue``.
        """
        return await self._emitter.emit(
            event, payload, idempotency_key=idempotency_key, correlation_id=correlation_id
        )

    async def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy an SQLite store into a new file while it is in use, as it is at one moment; durable on return.

        Never copy the file of a store in use by other means: what is committed may still be in its log
        (``-wal``), and reading the file inside this process takes SQLite's locks away. Raises
        ConfigurationError where the file exists or the store is no file, StoreError where it can't be
        written.
        """
        if not isinstance(self._engine.store, BacksUp):
            raise ConfigurationError(
                f"{self._engine.store.name} is backed up by its server's own tools, such as pg_dump"
            )
        await self._engine.read(self._engine.store.backup(path))

    def within(self, transaction: Any) -> Within:
        """``enqueue`` and ``emit`` inside a transaction of your own on the store's database.

        What they make becomes visible when that transaction commits, and was never there if it rolls back.
        ``transaction``: a connection of asyncpg, psycopg 3 or SQLAlchemy (or its session) in a transaction on
        the store's PostgreSQL database; of sqlite3, aiosqlite or SQLAlchemy on the store's SQLite file.
        """
        return Within(self._engine, self._enqueuer, self._emitter, transaction)

    async def run(self, task: Task[P, R, Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Create a run and execute it here, retries included, until it has ended or is held.

        With the idempotency key of an existing run: its result is returned, or it is resumed if its owner is
        gone, or its live owner is waited for. It waits until the run is due, by ``delay=``, ``at=`` or the
        pause before a retry, and still does when it is called again after a kill. A cancellation of the
        caller releases the run. Raises as ``enqueue`` and ``Run.result``.
        """
        owner = await self._own()
        run = await run_here(self._runtime, self._enqueuer, owner, task, args, kwargs)
        result: R = await run.result()
        return result

    async def _own(self) -> Owner:
        if self._owner is None:
            self._owner = Owner(self._runtime, f"{socket.gethostname()}:{os.getpid()}:run")
        await self._owner.start()
        return self._owner

    def worker(
        self,
        *,
        tasks: Sequence[Task[..., Any, Any]] | None = None,
        concurrency: int = 100,
        name: str | None = None,
        retention: Duration | None = None,
    ) -> Worker:
        """A worker for runs of ``tasks`` (by default of all declared ones), ``concurrency`` at a time.

        Use it with ``async with`` (leaving drains, leaving by an exception releases) or ``serve()``. With
        ``retention`` (a timedelta, or seconds) it also purges every run that ended longer ago.
        """
        whole(concurrency, "worker(concurrency", least=1)
        kept = None if retention is None else seconds(retention, "worker(retention", positive=True)
        specs = None if tasks is None else [spec_of(task) for task in tasks]
        worker = Worker(
            self._runtime,
            lambda: _by_name(specs),
            concurrency=concurrency,
            name=name,
            retention=kept,
            prepare=lambda: self._subscribe(_by_name(specs).values()),
        )
        self._workers.add(worker)
        return worker


class SyncLog(SyncRunOperations):
    """``EffectLog`` for code without an event loop.

    Each method does what the method of that name does there.
    """

    _log: EffectLog

    def __init__(self, log: EffectLog) -> None:
        super().__init__(log)

    def open(self) -> EffectLog:
        """Open the log, as ``with EffectLog(...)`` does."""
        return self._portal.call(self._log.__aenter__(), "log.__aenter__()  # async with EffectLog(...)")

    def close(self) -> None:
        """Close the log and the loop behind this object."""
        try:
            self._portal.call(self._log.close(), "log.close()")
        except StoreClosed:
            pass
        finally:
            self._portal.close()

    def enqueue(self, task: Task[P, R, Any], /, *args: P.args, **kwargs: P.kwargs) -> SyncRun[R]:
        """As ``EffectLog.enqueue``."""
        return self._run(self._call(self._log.enqueue(task, *args, **kwargs), "log.enqueue(...)"))

    def enqueue_many(
        self,
        task: Task[..., R, Any],
        calls: Iterable[tuple[Any, ...]],
        idempotency_keys: Sequence[str] | None = None,
    ) -> list[SyncRun[R]]:
        """As ``EffectLog.enqueue_many``."""
        runs = self._call(self._log.enqueue_many(task, calls, idempotency_keys), "log.enqueue_many(...)")
        return [self._run(run) for run in runs]

    def emit(
        self,
        event: str,
        payload: Any,
        *,
        idempotency_key: str | None = None,
        correlation_id: str | None = None,
    ) -> list[SyncRun[Any]]:
        """As ``EffectLog.emit``."""
        emitted = self._log.emit(
            event, payload, idempotency_key=idempotency_key, correlation_id=correlation_id
        )
        return [self._run(run) for run in self._call(emitted, "log.emit(...)")]

    def within(self, transaction: Any) -> SyncWithin:
        """As ``EffectLog.within``, on a connection of a blocking driver; it may be used on any thread."""
        return SyncWithin(self._log.within(transaction).blocking(), self._portal)

    def run(self, task: Task[P, R, Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """As ``EffectLog.run``: a script that can be killed and started again, and goes on."""
        return self._call(self._log.run(task, *args, **kwargs), "log.run(...)")

    def worker(
        self,
        *,
        tasks: Sequence[Task[..., Any, Any]] | None = None,
        concurrency: int = 100,
        name: str | None = None,
        retention: Duration | None = None,
    ) -> SyncWorker:
        """As ``EffectLog.worker``, for ``with``; it executes on this object's loop."""
        worker = self._log.worker(tasks=tasks, concurrency=concurrency, name=name, retention=retention)
        return SyncWorker(worker, self._portal)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """As ``EffectLog.backup``."""
        self._call(self._log.backup(path), "log.backup(...)")


def _forget(engine: Engine, file: str, line: int) -> None:
    """Let go of a log that nobody can use or close any more."""
    telemetry.unwatch(engine.store.name, engine.health)
    engine.forget()
    if not engine.inherited:
        _warn_unclosed(engine.store.name, file, line)


def _warn_unclosed(store: str, file: str, line: int) -> None:
    message = (
        f"the log on {store} was never closed: use 'with EffectLog(...)' or 'async with', or close it; what "
        "was acknowledged is stored, but a run under way is taken for a crash"
    )
    warnings.warn_explicit(message, ResourceWarning, file, line)


def _by_name(chosen: list[TaskSpec] | None) -> Mapping[str, TaskSpec]:
    if chosen is None:
        return registered()
    return {name: spec for spec in chosen for name in spec.names}
