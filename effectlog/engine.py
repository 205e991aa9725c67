"""The background thread: one event loop that owns the store, and the only bridge to it.

Callers on any thread or loop hand in commands; whatever is waiting goes into the next transaction, so
that concurrent effects share one durable commit. A batch is never cancelled halfway, whatever
becomes of the callers. The invariant: commands are applied in the order they were handed in.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from effectlog.batches import Batches
from effectlog.changes import Changes
from effectlog.engine_calls import Calls
from effectlog.entries import Entry, fail, into
from effectlog.errors import ConfigurationError, StoreClosed, StoreError
from effectlog.store.protocol import Concurrent

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from effectlog.commands import Command, Outcome, Renew
    from effectlog.entries import Chain
    from effectlog.store.protocol import Store

T = TypeVar("T")

LINGER = 0.0005
"""Seconds that a batch of nothing but completed records waits for the run's next record."""
BATCH_LIMIT = 512
"""Commands in one transaction at most, so that a heartbeat never waits long."""
STUCK = 0.25
"""Seconds without an answer of the store after which the deadlines of those who wait are looked at."""
_BACKOFF = (0.02, 1.0)


class Engine:
    """Owns the store on a thread of its own; ``start`` and ``close`` are the thread's whole life."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._queue: deque[Entry] = deque()
        self._taken: list[Entry] = []
        self._timer: asyncio.TimerHandle | None = None
        self._signalled = False
        self._closing = False
        # Between a look at ``_closing`` and what follows from it nothing may close: it would never be answered.
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self.changes = Changes(store)
        self._batches = Batches(store, self.changes.tell)
        self._calls = Calls(self.closed_error, self._batches.errors)

    @property
    def commits(self) -> int:
        """Transactions so far: what a benchmark counts."""
        return self._batches.commits

    def note(self, error: StoreError) -> None:
        """An error of this engine's own store that did not come by the engine."""
        self._batches.errors.add(error)

    def gave(self, error: StoreError) -> bool:
        """Whether the error is of this engine's own store: another store's trouble is not ours."""
        return error in self._batches.errors

    # --- life ----------------------------------------------------------------------------------

    def start(self) -> concurrent.futures.Future[None]:
        """Start the thread; the future is done when the store is open, or has why it is not.

        Raises ConfigurationError where it is at work already.
        """
        if self._thread is not None and os.getpid() == self._pid:
            raise ConfigurationError(
                f"the log on {self.store.name} is open already; open it once, around all that uses it, and pass the "
                f"object on"
            )
        opened: concurrent.futures.Future[None] = concurrent.futures.Future()
        opened.set_running_or_notify_cancel()  # Whoever stops waiting for it must not stop it.
        self._pid = os.getpid()
        self._closing = False
        self._calls = Calls(self.closed_error, self._batches.errors)
        self._thread = threading.Thread(
            target=self._main, args=(opened,), name="effectlog-engine", daemon=True
        )
        self._thread.start()
        atexit.register(self.close)
        return opened

    def close(self) -> None:
        """Commit what was handed in, close the store and end the thread. May be called twice."""
        atexit.unregister(self.close)
        thread = self._thread
        if thread is None or os.getpid() != self._pid:
            return
        with self._lock:
            self._closing = True
            if self._loop is not None:
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._signal)
        if thread is not threading.current_thread():
            thread.join()
        self._thread = None

    def _main(self, opened: concurrent.futures.Future[None]) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            try:
                runner.run(self._serve(opened))
            finally:
                self._loop = None

    async def _serve(self, opened: concurrent.futures.Future[None]) -> None:
        self._wake = asyncio.Event()
        try:
            await self.store.open()
        except BaseException as error:
            opened.set_exception(error)
            return
        self.changes.begin()
        opened.set_result(None)
        try:
            await self._commit_batches()
        finally:
            self.changes.end()
            await self._refuse_rest()
            await self.store.close()

    async def _refuse_rest(self) -> None:
        """Answer everybody who is still waiting."""
        with self._lock:
            self._closing = True
        fail([*self._taken, *self._queue], self.closed_error())
        self._queue.clear()
        await self._calls.end()

    def closed_error(self) -> StoreClosed:
        """Why nothing can be handed in any more."""
        if os.getpid() != self._pid:
            return StoreClosed(
                f"this log was opened by process {self._pid}; its forked child {os.getpid()} must open its own"
            )
        return StoreClosed(f"the log on {self.store.name} is closed; open it again before using it")

    # --- handing in ----------------------------------------------------------------------------

    async def commit(
        self, *commands: Command, until: float = 0.0, insist: bool = False, chain: Chain | None = None
    ) -> list[Outcome]:
        """Apply the commands in order and return their outcomes, durable.

        Being cancelled while waiting leaves the commit to go on.
        """
        return await self.submit(*commands, until=until, insist=insist, chain=chain)

    def submit(
        self, *commands: Command, until: float = 0.0, insist: bool = False, chain: Chain | None = None
    ) -> asyncio.Future[list[Outcome]]:
        """As ``commit``, as a future of the running loop."""
        waiter: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        self._push(Entry(commands, chain, waiter=waiter, until=until, insist=insist))
        return waiter

    def commit_sync(
        self, *commands: Command, until: float = 0.0, insist: bool = False, chain: Chain | None = None
    ) -> list[Outcome]:
        """As ``commit``, blocking the calling thread."""
        done: concurrent.futures.Future[list[Outcome]] = concurrent.futures.Future()
        self._push(Entry(commands, chain, resolve=into(done), until=until, insist=insist))
        return done.result()

    def post(
        self,
        *commands: Command,
        until: float,
        resolve: Callable[[list[Outcome] | None, BaseException | None], None],
        chain: Chain | None = None,
    ) -> None:
        """Hand in an outcome without waiting; its commit begins within a millisecond.

        ``resolve`` is called on the engine's thread with the outcomes or the error.
        """
        self._push(Entry(commands, chain, resolve=resolve, until=until, insist=True, linger=True))

    async def renew(self, command: Renew, *, until: float) -> Outcome:
        """Renew leases, on the engine's loop: beside all other traffic where the store can do that."""
        if isinstance(self.store, Concurrent):
            return await self.store.renew(command)
        return (await self.commit(command, until=until))[0]

    async def commit_beside(self, *commands: Command) -> list[Outcome]:
        """As ``commit``, on the engine's loop, and beside all other traffic where the store can do that.

        There a run that somebody keeps locked holds nobody up: its command comes back as busy.
        """
        if not isinstance(self.store, Concurrent):
            return await self.commit(*commands)
        outcomes = await self.store.apply(commands)
        self.changes.tell()
        return outcomes

    def call(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine on the engine's loop, such as one of the store's reads."""
        guarded = self._calls.answered(coroutine)
        try:
            self._check_process()
            with self._lock:
                return asyncio.run_coroutine_threadsafe(guarded, self._running_loop())
        except StoreClosed:
            guarded.close()
            coroutine.close()
            raise

    async def read(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """As ``call``, awaited from any loop."""
        return await asyncio.wrap_future(self.call(coroutine))

    def _push(self, entry: Entry) -> None:
        self._check_process()
        with self._lock:
            loop = self._running_loop()
            self._queue.append(entry)
            if not self._signalled:
                self._signalled = True
                loop.call_soon_threadsafe(self._signal)

    def _check_process(self) -> None:
        # Asked before the lock is taken, which a forked child may have inherited as held.
        if os.getpid() != self._pid:
            raise self.closed_error()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """The engine's loop, which keeps running while the lock is held."""
        if self._closing or self._loop is None:
            raise self.closed_error()
        return self._loop

    def _signal(self) -> None:
        if self._wake is not None:
            self._wake.set()

    # --- committing ----------------------------------------------------------------------------

    async def _commit_batches(self) -> None:
        assert self._wake is not None  # noqa: S101 - set before the loop begins
        backoff = 0.0
        while not (self._closing and not self._queue):
            if not self._queue:
                await self._wake.wait()
            self._wake.clear()
            self._signalled = False
            await self._linger()
            again = await self._apply_watched(self._take())
            if not again:
                backoff = 0.0
                continue
            self._queue.extendleft(reversed(again))
            backoff = min(max(_BACKOFF[0], backoff * 2), _BACKOFF[1])
            await self._pause(backoff)

    async def _pause(self, seconds: float) -> None:
        """Wait before trying again, or until something new is handed in."""
        assert self._wake is not None and self._loop is not None  # noqa: S101, PT018
        timer = self._loop.call_later(seconds, self._wake.set)
        await self._wake.wait()
        timer.cancel()

    async def _linger(self) -> None:
        """Wait a moment while all that is there are completed records: the next record may share the commit."""
        assert self._wake is not None and self._loop is not None  # noqa: S101, PT018
        while self._all_linger() and not self._closing:
            left = self._queue[0].since + LINGER - time.monotonic()
            if left <= 0:
                return
            timer = self._loop.call_later(left, self._wake.set)
            await self._wake.wait()
            timer.cancel()
            self._wake.clear()
            self._signalled = False

    def _all_linger(self) -> bool:
        with self._lock:  # Others hand in while we look.
            return bool(self._queue) and all(entry.linger for entry in self._queue)

    def _take(self) -> list[Entry]:
        batch: list[Entry] = []
        size = 0
        while self._queue and (not batch or size + len(self._queue[0].commands) <= BATCH_LIMIT):
            entry = self._queue.popleft()
            size += len(entry.commands)
            batch.append(entry)
        return batch

    async def _apply_watched(self, batch: list[Entry]) -> list[Entry]:
        """Apply a batch; nobody waits past a deadline for a store that does not answer."""
        self._taken = batch
        self._watch_store()
        try:
            return await self._batches.apply(batch)
        finally:
            self._taken = []
            if self._timer is not None:
                self._timer.cancel()

    def _watch_store(self) -> None:
        assert self._loop is not None  # noqa: S101 - called on it
        self._timer = self._loop.call_later(STUCK, self._give_up_late)

    def _give_up_late(self) -> None:
        """The store has not answered for a while: tell those whose time is over. What it has, it may still do."""
        now = time.monotonic()
        with self._lock:
            waiting = (entry for entry in (*self._taken, *self._queue) if not entry.answered)
            late = [entry for entry in waiting if entry.until and entry.is_over(now)]
            for entry in late:
                with contextlib.suppress(ValueError):  # It is with the store.
                    self._queue.remove(entry)
        if late:
            reason = (
                f"{self.store.name} has not answered in time, and whether it will store this is not known"
            )
            self._batches.give_up(late, StoreError(reason, transient=True))
        self._watch_store()
