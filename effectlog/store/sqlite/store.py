"""The embedded store: one SQLite file, shared by the processes of one machine.

WAL with ``synchronous=FULL``: what ``apply`` reported survives a power failure. One writer connection
takes whole batches as one function on its thread; a second connection reads outside any
transaction, so that no snapshot is held open. The only module that imports aiosqlite.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import aiosqlite

from effectlog.clock import Clock, SystemClock
from effectlog.errors import ConfigurationError, StoreClosed, StoreError, StoreRefused
from effectlog.store.caller_transactions import (
    check_commands,
    driver_connection,
    has_to_be_awaited,
    refuse_awaited,
    without_waiting,
)
from effectlog.store.dry_run import DryRunStore
from effectlog.store.sqlite import file as sqlite_file
from effectlog.store.sqlite import transactions
from effectlog.store.sqlite.apply import SQL, apply_batch, load_runs, perform
from effectlog.store.sqlite.change_watch import ChangeWatch
from effectlog.store.sqlite.errors import no_connection, translated
from effectlog.store.sqlite.file_guard import FileGuard, check_not_moved, real_path
from effectlog.store.sqlite.fork_guard import at_work
from effectlog.store.sqlite.liveness import NoLiveness, liveness_beside, share_folder
from effectlog.store.sqlite.reads import SqliteReads, fetch
from effectlog.store.sqlite.running_runs import RunningRuns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from effectlog.store.commands import Command, Outcome
    from effectlog.store.dry_run import DryRunTarget
    from effectlog.store.protocol import Apply, Liveness
    from effectlog.store.rows import StoredRun

T = TypeVar("T")
R = TypeVar("R")

_MEMORY_INTERVAL = 1.0
_inherited: list[object] = []


class SqliteStore(SqliteReads):
    """A store in one local SQLite file, or in memory (``":memory:"``, gone with the log).

    Args:
        path: the file; it is created if missing, its folder must exist. A relative one is looked for where
            the process is when the store is made, whatever it changes to later.
        clock: replaces the machine's clocks, for tests.
        busy_timeout: seconds to wait for another process's write before a call fails.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, clock: Clock | None = None, busy_timeout: float = 5.0
    ) -> None:
        self._in_memory = path == ":memory:"
        # Whoever changes the folder, or a link, while the store is in use must not send the next connection
        # elsewhere.
        self._path = ":memory:" if self._in_memory else real_path(path)
        self._clock = clock or SystemClock()
        self._busy_timeout = busy_timeout
        self._liveness: Liveness = NoLiveness() if self._in_memory else liveness_beside(self._path)
        self._writer: aiosqlite.Connection | None = None
        self._reader: aiosqlite.Connection | None = None
        self._live = RunningRuns()
        self._guard: FileGuard | None = None
        self._watcher: ChangeWatch | None = None
        self._pid = os.getpid()

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def liveness(self) -> Liveness:
        return self._liveness

    async def open(self) -> None:
        """Open, check and migrate the file.

        Raises StoreRefused where the file is no database, is read-only, lies on a network file
        system, or was written by a newer effectlog.
        """
        self._pid = os.getpid()
        if not self._in_memory:
            sqlite_file.check_place(self._path)
            self._guard = sqlite_file.guarded(self._path)
        try:
            if self._guard is not None:
                with self._translating():
                    at_work(sqlite_file.roll_back_journal, self._path)
                self._guard.hold_database()
            self._writer = await self._connect()
            await self._call(self._writer, sqlite_file.prepare, self.name)
            if self._guard is not None:
                self._reader = await self._connect()
                await self._call(self._reader, sqlite_file.make_reader)
                share_folder(self._path)
                await self._call(self._writer, lambda _, guard: guard.hold(), self._guard)
                self._watcher = ChangeWatch(self._connection(check_same_thread=False), f"{self._path}-wal")
        except BaseException as error:
            await self.close()
            if isinstance(error, StoreError) and not isinstance(error, StoreRefused):
                raise StoreRefused(str(error)) from error
            raise

    async def close(self) -> None:
        writer, reader, watcher, guard = self._writer, self._reader, self._watcher, self._guard
        self._writer = self._reader = self._watcher = self._guard = None
        if os.getpid() != self._pid:
            # SQLite must not even close in a forked child what its parent has open, so it stays referenced.
            _inherited.append((writer, reader, watcher))
            return
        if watcher is not None:
            watcher.stop()
        for connection in (reader, writer):
            if connection is not None:
                with contextlib.suppress(sqlite3.Error):
                    await connection.close()
                # It has nothing left to do; but a thread that is still seen after a close is taken for a
                # leak.
                connection._thread.join(1.0)  # noqa: SLF001 - as in ``_connect``
        if guard is not None and guard.release():
            # On this thread: at the end of a process no other can be started.
            at_work(sqlite_file.tidy, self._path)

    def _connection(self, *, check_same_thread: bool = True) -> sqlite3.Connection:
        return sqlite3.connect(
            self._path,
            timeout=self._busy_timeout,
            isolation_level=None,
            cached_statements=256,
            check_same_thread=check_same_thread,
        )

    async def _connect(self) -> aiosqlite.Connection:
        connection = aiosqlite.Connection(lambda: at_work(self._connection), iter_chunk_size=64)
        # A log that nobody closed must not keep the process from ending.
        connection._thread.daemon = True  # noqa: SLF001 - aiosqlite offers no option for it
        try:
            return await connection
        except BaseException as error:
            # aiosqlite has told its thread to end. The thread still answers to this loop, which must be there
            # then.
            connection._thread.join(1.0)  # noqa: SLF001 - as above
            if isinstance(error, sqlite3.Error):
                raise translated(error, self.name) from error
            raise

    async def _call(
        self, connection: aiosqlite.Connection | None, function: Callable[..., T], *args: Any
    ) -> T:
        """Run one function as a unit on the connection's thread: a single hop, and no gap to cancel in."""
        connection = self._opened(connection)
        with self._translating():
            raw = connection._conn  # noqa: SLF001 - see the next line
            # aiosqlite offers single statements only; a batch must be one unit on its thread.
            return await connection._execute(at_work, function, raw, *args)  # type: ignore[no-any-return,no-untyped-call]  # noqa: SLF001

    @contextlib.contextmanager
    def _translating(self) -> Iterator[None]:
        """No driver error leaves the store."""
        try:
            yield
        except (sqlite3.Error, ValueError, OverflowError) as error:
            raise translated(error, self.name) from error

    def _opened(self, connection: aiosqlite.Connection | None) -> aiosqlite.Connection:
        self._check_process()
        if connection is None:
            raise StoreClosed(f"{self.name} is not open; open the log with 'async with EffectLog(...)'")
        return connection

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise StoreClosed(
                f"{self.name} was opened by process {self._pid} and can't be used in its forked child "
                f"{os.getpid()}; open a log of its own in the child"
            )

    async def apply(self, commands: Sequence[Command]) -> list[Outcome]:
        return await self._call(self._writer, self._apply, commands)

    def _apply(self, connection: sqlite3.Connection, commands: Sequence[Command]) -> list[Outcome]:
        guard = self._guard
        check_not_moved(guard)
        outcomes = apply_batch(connection, self._clock, self._live, commands)
        check_not_moved(
            guard
        )  # Nobody may be told that it is stored if it went into a file that nobody sees.
        return outcomes

    def hand_over(self, work: Callable[[Apply], None]) -> None:
        """Call ``work`` on the writer's thread, after what came before, with a blocking ``apply``."""
        writer = self._opened(self._writer)
        # As in ``_call``; nobody waits for it, so there is no future to answer.
        writer._tx.put_nowait((None, partial(work, self._apply_here)))  # noqa: SLF001

    def _apply_here(self, commands: Sequence[Command]) -> list[Outcome]:
        with self._translating():
            raw = self._opened(self._writer)._conn  # noqa: SLF001 - as in ``_call``
            return at_work(self._apply, raw, commands)

    async def dry_run(self, use: Callable[[DryRunTarget], Awaitable[T]]) -> T:
        """Run ``use`` in one transaction on this file that is rolled back; nobody else writes meanwhile."""

        async def apply(commands: Sequence[Command]) -> list[Outcome]:
            return await self._call(self._writer, perform, self._clock, RunningRuns(), commands)

        async def load(run_ids: Sequence[str]) -> list[StoredRun]:
            return await self._call(self._writer, load_runs, run_ids)

        try:
            await self._call(self._writer, fetch, "BEGIN IMMEDIATE", ())
            return await use(DryRunStore(self._clock, apply, load))
        finally:
            # Handed to the thread at once, whatever becomes of who waits here.
            await self._call(self._writer, _roll_back)

    async def apply_within(self, transaction: Any, commands: Sequence[Command]) -> list[Outcome]:
        """Apply inside the caller's transaction on this file: seen when it commits, gone if it rolls back.

        ``transaction``: a connection of sqlite3, aiosqlite or SQLAlchemy (or its session). Where an outcome
        is ``Refused`` or late, nothing of this call is stored, and the caller must roll back. Raises
        ConfigurationError for anything else, and StoreError, after which the caller must roll back too.
        """
        check_commands(commands)
        connection = await driver_connection(transaction)
        arguments = (transactions.apply, self._path, self._clock, commands)
        if isinstance(connection, sqlite3.Connection):
            return self._borrowed(connection, *arguments)
        if not isinstance(connection, aiosqlite.Connection):
            raise no_connection(transaction)
        return await self._call(connection, self._borrowed, *arguments)

    def apply_within_sync(self, transaction: Any, commands: Sequence[Command]) -> list[Outcome]:
        """As ``apply_within``, on a connection of a blocking driver."""
        check_commands(commands)
        refuse_awaited(transaction)
        connection = without_waiting(driver_connection(transaction))
        if isinstance(connection, aiosqlite.Connection):
            raise has_to_be_awaited()
        if not isinstance(connection, sqlite3.Connection):
            raise no_connection(transaction)
        return self._borrowed(connection, transactions.apply, self._path, self._clock, commands)

    def _borrowed(self, connection: sqlite3.Connection, function: Callable[..., T], *args: Any) -> T:
        try:
            return function(connection, *args)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                raise StoreError(
                    f"{self.name}: the caller's transaction can't write ({error}), because another one does "
                    f"or did "
                    f"since it first read; roll it back, and begin it with BEGIN IMMEDIATE",
                    transient=True,
                ) from error
            raise translated(error, self.name) from error

    @contextlib.contextmanager
    def transaction_sync(self) -> Iterator[transactions.OpenTransaction]:
        """Open a transaction for an effect's own writes, on a sqlite3 connection of the calling thread.

        It is rolled back unless ``commit`` is called. Nobody else writes to the file meanwhile.
        """
        self._check_process()
        if self._in_memory:
            raise ConfigurationError(
                "a store in memory has no second connection, so it can't give an effect a transaction; use a "
                "file"
            )
        with contextlib.ExitStack() as stack:
            try:
                opened = stack.enter_context(transactions.transaction(self._connection))
            except sqlite3.Error as error:
                raise translated(error, self.name) from error
            with transactions.explained(self.name):
                yield opened

    async def _read(self, function: Callable[..., T], *args: Any) -> T:
        return await self._call(self._reader or self._writer, function, *args)

    async def changed(self) -> None:
        """Return once another connection has committed; memory has none, so there it is a mere pause."""
        self._check_process()
        if self._watcher is None:
            await asyncio.sleep(_MEMORY_INTERVAL)
        else:
            await self._watcher.changed()

    async def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the store as it is at one moment into a new file, beside whatever is being written.

        Durable on return. Raises ConfigurationError where the file exists or the store is in memory,
        StoreError where it can't be written.
        """
        self._opened(self._writer)
        if self._in_memory:
            raise ConfigurationError("a store in memory has no file to copy; use a store in a file")
        with self._translating():
            await asyncio.to_thread(at_work, self._back_up, real_path(path))

    def _back_up(self, target: str) -> None:
        try:
            with contextlib.closing(self._connection()) as connection:
                sqlite_file.back_up(connection, target)
        except OSError as error:
            raise StoreError(
                f"{target} can't be written ({error.strerror}); nothing was copied", transient=False
            ) from error

    async def set_mark(self, mark: str) -> None:
        await self._call(self._writer, fetch, SQL["save_mark"], (mark,))


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
