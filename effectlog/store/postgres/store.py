"""The PostgreSQL store: many processes on many machines, one server's clock.

Wires connections, commits, session and liveness together; what it reads stands in ``reads``. What ``apply``
reported is on the server's disk (and on its synchronous standby, where it has one). Rules stand in
``effectlog.store.rules``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from typing import TYPE_CHECKING, Any, TypeVar

from effectlog.errors import StoreClosed
from effectlog.store.caller_transactions import refuse_awaited, without_waiting
from effectlog.store.postgres import caller_transaction
from effectlog.store.postgres import schema as postgres_schema
from effectlog.store.postgres.commits import Transactions, TransactionState
from effectlog.store.postgres.confirm import Confirmation
from effectlog.store.postgres.connections import (
    SESSION_APPLICATION,
    Connection,
    Pool,
    Shield,
    Suspicion,
    apart,
    connect,
)
from effectlog.store.postgres.contention import Applier
from effectlog.store.postgres.dry_run import dry_run
from effectlog.store.postgres.effect_transaction import EffectTransactions, OpenTransaction
from effectlog.store.postgres.errors import refused, translated
from effectlog.store.postgres.liveness import PostgresLiveness
from effectlog.store.postgres.reads import PostgresReads
from effectlog.store.postgres.rights import check_rights
from effectlog.store.postgres.server_clock import ServerClock
from effectlog.store.postgres.session import Session
from effectlog.store.url import checked_schema, parse_url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from contextlib import AbstractAsyncContextManager

    from effectlog.clock import Clock
    from effectlog.store import commands as c
    from effectlog.store.dry_run import DryRunTarget

T = TypeVar("T")

POLL_INTERVAL = 0.5
"""Seconds after which ``changed`` returns though nobody announced anything."""
_LONG_AGO = 30 * 86400.0


class PostgresStore(PostgresReads):
    """A store in one schema of a PostgreSQL database, 14 or newer.

    Args:
        dsn: ``postgresql://user@host:5432/db``, with libpq's options; several hosts make a fail-over URL.
            ``?pooler=transaction`` says that PgBouncer or the like stands in between (it is also
            detected): changes are then polled for, and no owner's death is noticed before its lease ends.
        schema: the PostgreSQL schema that holds everything.
        pool_size: connections for transactions and reads; two come on top, for heartbeats and the session.
        patience: seconds to wait for a free connection or an unreachable server before a call fails.
        grace: seconds that an owner on another host must have had no session before it counts as dead.
        time_limit: seconds after which a transaction's connection counts as dead; another one is tried then.
        clock: replaces the caller's clocks, for tests; else the wall time is the server's. Leases always use
            the server's.

    Raises ConfigurationError for a URL or a schema name that can't work.
    """

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "effectlog",
        pool_size: int = 5,
        patience: float = 10.0,
        grace: float = 5.0,
        time_limit: float = 8.0,
        clock: Clock | None = None,
    ) -> None:
        self._url = parse_url(dsn)
        self._schema = checked_schema(schema)
        self._sql = postgres_schema.statements_for(schema)
        server_clock = ServerClock()
        self._clock = clock or server_clock
        self._suspicion = Suspicion()
        self._users = Pool(self._url, self._suspicion, size=pool_size, patience=patience, limit=time_limit)
        beat = min(3.0, patience), min(3.0, time_limit)
        self._beats = Pool(self._url, self._suspicion, size=1, patience=beat[0], limit=beat[1])
        self._effects = EffectTransactions(
            self._url, self._sql, self._suspicion, size=pool_size, patience=patience, limit=time_limit
        )
        self._commits = Transactions(self._sql, self._url.name)
        self._confirmation = Confirmation(self._commits, self._users, self._sql, self._url.name)
        self._shield = Shield()
        self._news = asyncio.Event()
        self._liveness = PostgresLiveness(
            self._sql, schema, grace=grace, read=self._rows, write=self._write_one
        )
        self._applier = Applier(
            self._commits,
            self._users,
            self._beats,
            self._liveness,
            self._sql,
            schema,
            self.name,
            server_clock.seen,
            freed=lambda: self._news.set(),  # noqa: PLW0108 - a new event comes with each open
        )
        self._session: Session | None = None
        self._pooled = False
        self._writes = True
        self._open = False
        self._pid = os.getpid()

    @property
    def name(self) -> str:
        return self._url.name

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def liveness(self) -> PostgresLiveness:
        return self._liveness

    # --- life ------------------------------------------------------------------------------------

    def for_reading(self) -> None:
        """Ask for no right but SELECT when the store is opened: nothing is going to be written."""
        self._writes = False

    async def open(self) -> None:
        """Connect, check server and rights, and bring the schema up to date where this role may.

        Raises StoreRefused for a standby, a server older than 14, a newer schema, a schema that somebody with
        more rights has to create (``effectlog migrate``), and a role that lacks a right or can't see every
        row.
        """
        self._pid = os.getpid()
        try:
            await self._check()
            await self._users.open(pooled=self._pooled)
            await self._beats.open(pooled=self._pooled)
        except Exception as error:
            await self.close()
            raise refused(error, self._url) from error
        self._news = asyncio.Event()
        self._open = True
        if not self._pooled:
            self._session = self._liveness.session = self._new_session()
            self._session.start()
        if self._writes:
            await self._tidy()

    async def _tidy(self) -> None:
        """Remove what processes that did not close left behind long ago."""
        await self._write_one("remove_old_writers", _LONG_AGO)
        if not self._pooled:
            await self._write_one("remove_old_owners", _LONG_AGO)

    async def _check(self) -> None:
        async with apart(self._url) as connection:
            begin, pooled = await postgres_schema.check_server(
                connection, self._sql, self.name, writes=self._writes
            )
            await postgres_schema.ensure_schema(connection, self._sql, self._schema, self.name)
            await check_rights(connection, self._sql, self._schema, self.name, writes=self._writes)
        self._pooled = pooled if self._url.pooled is None else self._url.pooled
        self._commits.begin = self._sql[begin]
        self._commits.pooled = self._effects.pooled = self._pooled

    def _new_session(self) -> Session:
        return Session(
            lambda: connect(self._url, pooled=False, application=SESSION_APPLICATION),
            channel=self._schema,
            token=secrets.token_hex(8),
            notify=self._sql["notify"],
            on_open=self._liveness.take_again,
            on_loss=self._suspicion.rise,
            on_news=lambda: self._news.set(),  # noqa: PLW0108 - a new event comes with each open
            described=lambda error: f"{self.name}: {self._url.hide(str(error)) or type(error).__name__}",
        )

    async def migrate(self) -> None:
        """Create or update the schema, one migrator at a time; needs no ``open``. Raises StoreRefused."""
        try:
            async with apart(self._url) as connection:
                await postgres_schema.migrate(connection, self._sql, self._schema, self.name)
        except Exception as error:
            raise refused(error, self._url) from error

    async def close(self) -> None:
        if os.getpid() != self._pid:
            return  # A forked child must leave the parent's connections alone.
        await self._shield.settle(self._users.limit)
        if self._session is not None:
            await self._session.close()
            self._session = None
        self._liveness.close()
        if self._open:
            await self._commits.close(self._users)
        self._open = False
        await self._effects.close()
        await self._beats.close()
        await self._users.close()

    def _check_usable(self) -> None:
        if os.getpid() != self._pid:
            raise StoreClosed(
                f"{self.name} was opened by process {self._pid} and can't be used in its forked child "
                f"{os.getpid()}; open a log of its own in the child"
            )
        if not self._open:
            raise StoreClosed(f"{self.name} is not open; open the log with 'async with EffectLog(...)'")

    async def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run to the end whatever becomes of the caller, and raise nothing but StoreError."""
        try:
            self._check_usable()
        except StoreClosed:
            coroutine.close()
            raise
        try:
            return await self._shield.call(coroutine)
        except Exception as error:
            raise translated(error, self._url) from error

    # --- writing ---------------------------------------------------------------------------------

    async def apply(self, commands: Sequence[c.Command]) -> list[c.Outcome]:
        """Apply all commands in one durable transaction, tried again after collisions and lost connections.

        A command whose run is kept locked by somebody else's open transaction comes back
        ``Refusal.BUSY`` beside others, and raises a transient StoreError where it is alone.
        """
        return await self._call(self._applier.apply(commands))

    async def renew(self, command: c.Renew) -> c.Outcome:
        """Renew leases on the connection that only heartbeats use."""
        return (await self.apply([command]))[0]

    async def _write_one(self, statement: str, *args: Any) -> None:
        async def work(connection: Connection, state: TransactionState) -> None:
            state.wrote = bool(await connection.fetch(self._sql[statement], *args))

        await self._call(self._commits.run(self._users, work))

    async def set_mark(self, mark: str) -> None:
        await self._write_one("save_mark", mark)

    async def dry_run(self, use: Callable[[DryRunTarget], Awaitable[T]]) -> T:
        """Run ``use`` in one transaction, on a connection of its own, that is rolled back."""
        return await self._call(self._rehearse(use))

    async def _rehearse(self, use: Callable[[DryRunTarget], Awaitable[T]]) -> T:
        async with apart(self._url) as connection:
            return await dry_run(connection, self._sql, self._schema, self._clock, use)

    async def apply_within(self, transaction: Any, commands: Sequence[c.Command]) -> list[c.Outcome]:
        """Apply inside the caller's own open transaction: seen when it commits, gone if it rolls back.

        For ``CreateRuns``, and for ``FinishEffect`` as the last thing before the caller commits.
        ``transaction``: a connection of asyncpg, psycopg 3 or SQLAlchemy (or its session), in a transaction
        on this database. Where an outcome is ``Refused`` or late, nothing of this call is stored, and the
        caller must roll back. Raises ConfigurationError for anything else, and StoreError, after which the
        caller must roll back too.
        """
        return await caller_transaction.apply(transaction, commands, self._sql, self._schema, self._url)

    def apply_within_sync(self, transaction: Any, commands: Sequence[c.Command]) -> list[c.Outcome]:
        """As ``apply_within``, on a connection of a blocking driver."""
        refuse_awaited(transaction)
        return without_waiting(self.apply_within(transaction, commands))

    def transaction(self) -> AbstractAsyncContextManager[OpenTransaction]:
        """A transaction for an effect's own writes, on the calling loop.

        Rolled back unless ``commit`` is called.
        """
        self._check_usable()
        return self._effects.open()

    # --- reading ---------------------------------------------------------------------------------

    async def confirm(self) -> None:
        """Return once all that reads have shown so far is as durable as a write of now, standby included."""
        await self._call(self._confirmation.confirm())

    async def changed(self) -> None:
        """Return when another process announced a change, and after ``POLL_INTERVAL`` at the latest."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_INTERVAL):
                await self._news.wait()
        self._news.clear()

    async def _read(
        self,
        use: Callable[[Connection], Awaitable[T]],
        *,
        one_statement: bool = False,
        limit: float | None = None,
    ) -> T:
        """Read in one snapshot; tried again where the connection breaks."""

        async def work(connection: Connection, _: TransactionState) -> T:
            return await use(connection)

        return await self._call(
            self._commits.read(self._users, work, one_statement=one_statement, limit=limit)
        )
