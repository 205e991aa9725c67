"""Commands inside a transaction that belongs to the caller, on whatever driver the caller uses.

Nothing here begins, commits or rolls back the transaction; tries that lost a race go back to a savepoint. The
invariant: what is reported is stored exactly if the caller's own writes are.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from effectlog import commands as c
from effectlog.errors import ConfigurationError, StoreError
from effectlog.store.postgres_apply import Aside, apply_batch
from effectlog.store.postgres_batch import Batch, BlockedError
from effectlog.store.postgres_errors import LostRaceError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

T = TypeVar("T")

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
            raise _no_transaction()
        self._connection = connection

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        return list(await self._connection.fetch(query, *args))


class _Psycopg:
    def __init__(self, connection: Any) -> None:
        if connection.autocommit and connection.info.transaction_status == _IDLE:
            raise _no_transaction()
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
    """The driver's connection under whatever the caller has, told by what it can do: no driver is imported."""
    if hasattr(transaction, "is_in_transaction"):
        return _Asyncpg(transaction)
    if hasattr(transaction, "pgconn"):
        return _Psycopg(transaction)
    if hasattr(transaction, "get_raw_connection"):
        # SQLAlchemy begins on the server with the first statement only.
        await transaction.exec_driver_sql("SELECT 1")
        return await _borrow((await transaction.get_raw_connection()).driver_connection)
    if hasattr(transaction, "exec_driver_sql"):
        transaction.exec_driver_sql("SELECT 1")
        return await _borrow(transaction.connection.driver_connection)
    if callable(getattr(transaction, "connection", None)):
        inner = transaction.connection()
        return await _borrow(await inner if inspect.isawaitable(inner) else inner)
    raise ConfigurationError(
        f"a {type(transaction).__name__} is no connection of asyncpg, psycopg 3 or SQLAlchemy, so nothing "
        f"can be stored in its transaction"
    )


def _is_awaited(transaction: Any) -> bool:
    return any(
        inspect.iscoroutinefunction(getattr(transaction, name, None))
        for name in ("execute", "exec_driver_sql", "fetchval")
    )


def _no_transaction() -> ConfigurationError:
    return ConfigurationError(
        "the connection is in no transaction, so there is nothing to be stored together with; begin one first"
    )


async def apply(
    transaction: Any, commands: Sequence[c.Command], sql: Mapping[str, str], schema: str, *, blocking: bool
) -> list[c.Outcome]:
    """Apply the commands on the caller's connection; where one is refused or late, none of them."""
    if blocking and _is_awaited(transaction):
        raise ConfigurationError("this connection has to be awaited; use the asynchronous call for it")
    connection = await _borrow(transaction)
    for command in commands:
        if not isinstance(command, (c.CreateRuns, c.FinishEffect)):
            raise ConfigurationError(f"{type(command).__name__} can't be part of a caller's transaction")
    # Creating runs looks at the parent without locking it: a long transaction must not stop its heartbeats.
    locking = any(isinstance(command, c.FinishEffect) for command in commands)
    for tries in range(1, _TRIES + 1):
        await connection.fetch("SAVEPOINT effectlog")
        try:
            batch = Batch(connection, sql, schema, locking=locking)
            outcomes = await apply_batch(batch, commands, Aside(), verify_dead=False)
        except (LostRaceError, BlockedError) as error:
            await connection.fetch("ROLLBACK TO SAVEPOINT effectlog")
            if tries == _TRIES:
                raise StoreError(
                    f"somebody else's transaction keeps what this one needs ({error}); roll back and try again",
                    transient=True,
                ) from error
            if connection.waits:
                await asyncio.sleep(_PAUSE)
        else:
            if any(map(_is_stale, outcomes)):
                await connection.fetch("ROLLBACK TO SAVEPOINT effectlog")
            elif batch.news:
                await connection.fetch(sql["notify"], schema, "")
            await connection.fetch("RELEASE SAVEPOINT effectlog")
            return outcomes
    raise AssertionError  # The last try raised.


def _is_stale(outcome: c.Outcome) -> bool:
    """The attempt no longer owns its run, so the caller's writes must not be committed with it either."""
    return isinstance(outcome, c.Refused) or (isinstance(outcome, c.EffectStored) and outcome.late)


def without_waiting(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine over a blocking driver, which never waits for a loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise AssertionError  # A connection that has to be awaited was refused before.
