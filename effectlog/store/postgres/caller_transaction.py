"""Commands inside a transaction that belongs to the caller, on whatever driver the caller uses.

Nothing here begins, commits or rolls back the transaction; tries that lost a race go back to a savepoint. The
invariant: what is reported is stored exactly if the caller's own writes are.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
from typing import TYPE_CHECKING, Any, Protocol

from effectlog.errors import ConfigurationError, EffectLogError, StoreError
from effectlog.store import commands as c
from effectlog.store.caller_transactions import check_commands, driver_connection, is_stale, no_transaction
from effectlog.store.postgres.apply import SetAside, apply_batch
from effectlog.store.postgres.batch import Batch, BlockedError
from effectlog.store.postgres.confirm import has_standby
from effectlog.store.postgres.errors import TRANSACTION_ABORTED, LostRaceError, sqlstate, translated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from effectlog.store.url import PostgresUrl

_TRIES = 20
_PAUSE = 0.01
_IDLE = 0
"""psycopg's transaction status of a connection without a transaction."""


class Borrowed(Protocol):
    """The caller's connection, whatever its driver."""

    waits: bool
    """Whether calls are awaited; a blocking driver's are done when they return."""

    async def fetch(self, query: str, *args: Any) -> list[Any]: ...


class _Asyncpg:
    waits = True

    def __init__(self, connection: Any) -> None:
        if not connection.is_in_transaction():
            raise no_transaction()
        self._connection = connection

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        return list(await self._connection.fetch(query, *args))


class _Psycopg:
    def __init__(self, connection: Any) -> None:
        if connection.autocommit and connection.info.transaction_status == _IDLE:
            raise no_transaction()
        self._connection = connection
        self.waits = inspect.iscoroutinefunction(connection.execute)

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        from psycopg import AsyncRawCursor, RawCursor  # noqa: PLC0415 - who has such a connection has it
        from psycopg.rows import tuple_row  # noqa: PLC0415 - as above

        values = [list(arg) if isinstance(arg, tuple) else arg for arg in args]
        if not self.waits:
            with RawCursor(self._connection, row_factory=tuple_row) as cursor:
                cursor.execute(query.encode(), values)
                return cursor.fetchall() if cursor.description else []
        async with AsyncRawCursor(self._connection, row_factory=tuple_row) as waiting:
            await waiting.execute(query.encode(), values)
            return await waiting.fetchall() if waiting.description else []


async def _borrow(transaction: Any) -> Borrowed:
    """Return the driver's connection, known by what it can do: no driver is imported."""
    connection = transaction if _known(transaction) else await driver_connection(transaction)
    if hasattr(connection, "is_in_transaction"):
        return _Asyncpg(connection)
    if hasattr(connection, "pgconn"):
        return _Psycopg(connection)
    raise ConfigurationError(
        f"a {type(transaction).__name__} is no connection of asyncpg, psycopg 3 or SQLAlchemy, so nothing "
        f"can be stored in its transaction"
    )


def _known(connection: Any) -> bool:
    return hasattr(connection, "is_in_transaction") or hasattr(connection, "pgconn")


async def apply(
    transaction: Any,
    commands: Sequence[c.Command],
    sql: Mapping[str, str],
    schema: str,
    url: PostgresUrl,
) -> list[c.Outcome]:
    """Apply the commands on the caller's connection; where one is refused or late, none of them."""
    try:
        connection = await _borrow(transaction)
        check_commands(commands)
        return await _apply(connection, commands, sql, schema)
    except EffectLogError:
        raise
    except Exception as error:
        if sqlstate(error) == TRANSACTION_ABORTED:
            raise ConfigurationError(
                "an earlier statement of this transaction failed and its error was swallowed, so nothing "
                "more can "
                "be done in it; roll back, and put what may fail into a savepoint of its own"
            ) from error
        raise translated(error, url) from error


async def _apply(
    connection: Borrowed, commands: Sequence[c.Command], sql: Mapping[str, str], schema: str
) -> list[c.Outcome]:
    # Creating runs looks at the parent without locking it: a long transaction must not stop its heartbeats.
    locking = any(isinstance(command, c.FinishEffect) for command in commands)
    for tries in range(1, _TRIES + 1):
        await connection.fetch("SAVEPOINT effectlog")
        try:
            batch = Batch(connection, sql, schema, locking=locking)
            outcomes = await apply_batch(batch, commands, SetAside(), verify_dead=False)
        except (LostRaceError, BlockedError) as error:
            await connection.fetch("ROLLBACK TO SAVEPOINT effectlog")
            if tries == _TRIES:
                raise StoreError(
                    f"somebody else's transaction keeps what this one needs ({error}); roll back and try "
                    f"again",
                    transient=True,
                ) from error
            if connection.waits:
                await asyncio.sleep(_PAUSE)
        else:
            if any(map(is_stale, outcomes)):
                await connection.fetch("ROLLBACK TO SAVEPOINT effectlog")
            elif not batch.wrote and await has_standby(connection, sql):
                await _write_something(connection, sql)
            elif batch.news:
                await connection.fetch(sql["notify"], schema, "")
            await connection.fetch("RELEASE SAVEPOINT effectlog")
            return outcomes
    raise AssertionError  # The last try raised.


async def _write_something(connection: Borrowed, sql: Mapping[str, str]) -> None:
    """The caller may write nothing else, and its commit would then not wait for the standby."""
    passing = secrets.randbits(62)
    await connection.fetch(sql["add_writer"], passing)
    await connection.fetch(sql["remove_writer"], passing)
