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
import logging
import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from effectlog.engine.batches import Batches
from effectlog.engine.calls import Calls
from effectlog.engine.changes import Changes
from effectlog.engine.fast_path import FastPath
from effectlog.engine.green_threads import refuse_green_threads
from effectlog.engine.pending_futures import Owed
from effectlog.engine.queue import STUCK, Submission, SubmissionQueue, fail, into
from effectlog.errors import ConfigurationError, StoreClosed, StoreError
from effectlog.store.protocol import Concurrent, threaded
from effectlog.user_warnings import guard_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from effectlog.store.commands import Chain, Command, Outcome, Renew
    from effectlog.store.protocol import Store

T = TypeVar("T")

logger = logging.getLogger("effectlog")
_BACKOFF = (0.02, 1.0)


class Engine:
    """Owns the store, on its own thread; ``start`` and ``close`` are the thread's whole life."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self.forgotten: Callable[[], object] = lambda: None
        """Called where the process ends and nobody has closed the log."""
        self.changes = Changes(store)
        self._batches = Batches(store)
        self._begin()

    def _begin(self) -> None:
        """Begin anew at each start: a forked child inherits locks that may be held, and others' entries."""
        self._pid = os.getpid()
        self._signalled = False
        self._watched = False
        self._inbox = SubmissionQueue()
        self._owed = Owed()
        self._died: BaseException | None = None
        self._fast = FastPath(
            threaded(self.store),
            self._inbox,
            self._batches,
            committed=self.changes.tell_soon,
            stopped=self._signal_soon,
        )
        self._calls = Calls(self.closed_error, self._batches.errors)

    @property
    def commits(self) -> int:
        """Transactions so far: what a benchmark counts."""
        return self._batches.commits

    def note(self, error: StoreError) -> None:
        """An error of this engine's own store that did not come by the engine."""
        self._batches.errors.add(error)

    def owns_error(self, error: StoreError) -> bool:
        """Whether the error is of this engine's own store: another store's trouble is not ours."""
        return error in self._batches.errors

    @property
    def inherited(self) -> bool:
        """Whether this is a forked child's copy: its thread, and all that waits there, is its parent's."""
        return os.getpid() != self._pid

    # --- life ----------------------------------------------------------------------------------

    def start(self) -> concurrent.futures.Future[None]:
        """Start the thread; the future is done when the store is open, or has why it is not.

        Raises ConfigurationError where it is at work already, or where a library has replaced threads.
        """
        guard_logger()
        refuse_green_threads()
        if self._thread is not None and not self.inherited:
            raise ConfigurationError(
                f"the log on {self.store.name} is open already; open it once, around all that uses it, and "
                "pass the object on"
            )
        opened: concurrent.futures.Future[None] = concurrent.futures.Future()
        opened.set_running_or_notify_cancel()  # Whoever stops waiting for it must not stop it.
        self._begin()
        thread = threading.Thread(
            target=self._main, args=(self._owed.add(opened),), name="effectlog-engine", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            raise StoreError(
                f"{self.store.name} is not opened, because the system has no thread for it: {error}"
            ) from error
        self._thread = thread
        atexit.register(self._close_at_exit)
        return opened

    def close(self) -> None:
        """Commit what was handed in, close the store and end the thread. May be called twice."""
        atexit.unregister(self._close_at_exit)
        thread = self._thread
        if thread is None or self.inherited:
            return
        self._close_soon()
        if thread is not threading.current_thread():
            thread.join()
        self._thread = None

    def _close_soon(self) -> None:
        with self._inbox.lock:
            self._inbox.close()
            self._signal_soon()

    def forget(self) -> None:
        """Close without waiting, on whatever thread: nobody can use the log any more."""
        atexit.unregister(self._close_at_exit)
        if self._thread is not None and not self.inherited:
            # Not here: the collector may have interrupted code of this thread that holds the queue's lock.
            threading.Thread(target=self._close_soon, name="effectlog-forgotten", daemon=True).start()

    def _close_at_exit(self) -> None:
        self.forgotten()
        self.close()

    def _main(self, opened: concurrent.futures.Future[None]) -> None:
        try:
            with asyncio.Runner() as runner:
                self._loop = runner.get_loop()
                try:
                    runner.run(self._serve(opened))
                finally:
                    self._inbox.close()
        except BaseException as error:
            self._died = error
            logger.critical("effectlog: the thread of the log on %s ended", self.store.name, exc_info=error)
        finally:
            self._loop = None
            self.changes.end()
            fail(self._inbox.empty(), self.closed_error())
            self._owed.fail(self.closed_error)

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
        self._inbox.close()
        fail(self._inbox.empty(), self.closed_error())
        await self._calls.end()

    def closed_error(self) -> StoreClosed:
        """Why nothing can be handed in any more."""
        if self.inherited:
            return StoreClosed(
                f"this log was opened by process {self._pid}; its forked child {os.getpid()} must open its "
                "own"
            )
        if self._died is not None:
            kind = type(self._died).__qualname__
            return StoreClosed(
                f"the log on {self.store.name} has lost its thread, which ended with {kind}: {self._died}; "
                "close the log and open it again: what was not answered may be stored or not"
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
        self._push(Submission(commands, chain, waiter=waiter, until=until, insist=insist))
        return waiter

    def commit_sync(
        self, *commands: Command, until: float = 0.0, insist: bool = False, chain: Chain | None = None
    ) -> list[Outcome]:
        """As ``commit``, blocking the calling thread."""
        done: concurrent.futures.Future[list[Outcome]] = concurrent.futures.Future()
        self._push(Submission(commands, chain, resolve=into(done), until=until, insist=insist))
        return done.result()

    def post(
        self,
        *commands: Command,
        until: float,
        resolve: Callable[[list[Outcome] | None, BaseException | None], None],
        chain: Chain | None = None,
    ) -> None:
        """Hand in an outcome without waiting; its commit begins within a millisecond.

        ``resolve`` is called on the engine's or the store's thread with the outcomes or the error.
        """
        self._push(Submission(commands, chain, resolve=resolve, until=until, insist=True, linger=True))

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
            with self._inbox.lock:
                return self.owe(asyncio.run_coroutine_threadsafe(guarded, self._running_loop()))
        except StoreClosed:
            guarded.close()
            coroutine.close()
            raise

    def owe(self, future: concurrent.futures.Future[T]) -> concurrent.futures.Future[T]:
        """Fail this future, should the engine's thread end before something there answers it."""
        return self._owed.add(future)

    def health(self, timeout: float) -> dict[str, Any]:
        """The store's own account of itself. Blocks; TimeoutError after ``timeout`` seconds."""
        return self.call(self.store.health()).result(timeout)

    async def read(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """As ``call``, awaited from any loop."""
        return await asyncio.wrap_future(self.call(coroutine))

    def _push(self, entry: Submission) -> None:
        self._check_process()
        with self._inbox.lock:
            loop = self._running_loop()
            self._inbox.add(entry)
            if not self._watched:
                self._watched = True
                loop.call_soon_threadsafe(self._watch_store)
            if not self._fast.go():
                self._signal_soon()

    def _check_process(self) -> None:
        # Asked before the lock is taken, which a forked child may have inherited as held.
        if self.inherited:
            raise self.closed_error()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """The engine's loop, which keeps running while the lock is held."""
        if self._inbox.closing or self._loop is None:
            raise self.closed_error()
        return self._loop

    def _signal_soon(self) -> None:
        """Let the loop look at what there is to do, with the inbox's lock held."""
        if not self._signalled and self._loop is not None:
            self._signalled = True
            with contextlib.suppress(RuntimeError):  # It is closed by now.
                self._loop.call_soon_threadsafe(self._signal)

    def _signal(self) -> None:
        if self._wake is not None:
            self._wake.set()

    # --- committing ----------------------------------------------------------------------------

    async def _commit_batches(self) -> None:
        """Commit what the fast path leaves, until everything is closed and nothing is left."""
        backoff = 0.0
        while True:
            again = await self._commit_next()
            if again:
                backoff = min(max(_BACKOFF[0], backoff * 2), _BACKOFF[1])
                await self._woken(backoff)  # By something new, too.
                continue
            backoff = 0.0
            self._fast.reopen()
            if self._inbox.closing and not self._inbox and self._fast.resting:
                return
            if self._fast.is_open or not self._inbox:
                await self._woken()

    async def _commit_next(self) -> list[Submission]:
        """Commit one batch, unless the fast path does. Returns what has to be tried again after a pause."""
        failure = self._fast.take_failure()
        if failure is not None:
            again = await self._batches.after(failure)
        elif self._inbox and not self._fast.is_open:
            while (seconds := self._inbox.linger()) > 0:
                await self._woken(seconds)
            again = await self._batches.apply(self._inbox.take())
        else:
            return []
        self._inbox.returned(again)
        self.changes.tell()
        return again

    async def _woken(self, seconds: float | None = None) -> None:
        """Wait until there is something to look at, or for this many seconds."""
        assert self._wake is not None and self._loop is not None  # noqa: S101, PT018 - called on it
        timer = None if seconds is None else self._loop.call_later(seconds, self._wake.set)
        await self._wake.wait()
        if timer is not None:
            timer.cancel()
        self._wake.clear()
        self._signalled = False

    def _watch_store(self) -> None:
        """Answer, at intervals, whoever waits past a deadline for a store that does not answer."""
        late = self._inbox.take_late()
        if late:
            reason = (
                f"{self.store.name} has not answered in time, and whether it will store this is not known"
            )
            self._batches.give_up(late, StoreError(reason, transient=True))
        with self._inbox.lock:
            self._watched = not self._inbox.idle
        if self._watched and self._loop is not None:
            self._loop.call_later(STUCK, self._watch_store)
