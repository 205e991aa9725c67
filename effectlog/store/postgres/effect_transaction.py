"""Transactions that effects write in, on the loops that the effects run on.

Each loop has a lane of its own, because a connection can't change its loop. The invariant: what was not
committed here is rolled back by the server, whatever becomes of us.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import asyncpg  # type: ignore[import-untyped]  # the driver ships no type information

from effectlog.errors import StoreError, StoreTrouble
from effectlog.store.postgres.connections import Pool, abandon, time_limit
from effectlog.store.postgres.errors import is_lost, translated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from effectlog.store.postgres.connections import Suspicion
    from effectlog.store.url import PostgresUrl

LONGEST = 600.0
"""Seconds after which an effect's transaction counts as dead and loses its connection."""


class OpenTransaction:
    """A transaction that an effect writes in; it ends with ``commit``, or is rolled back."""

    def __init__(self, connection: Any, transaction: Any, url: PostgresUrl, limit: float) -> None:
        self.connection = connection
        self._transaction = transaction
        self._url = url
        self._limit = limit

    @property
    def is_open(self) -> bool:
        """The function has not ended it. One that a lost connection ended says so when it is used."""
        try:
            return self.connection.is_closed() or bool(self.connection.is_in_transaction())
        except asyncpg.InterfaceError:  # It was lost, and has gone back to its pool already.
            return True

    async def commit(self) -> None:
        """Commit; raises StoreError with ``StoreTrouble.OUTCOME_UNKNOWN`` where the answer was lost."""
        try:
            with time_limit(self.connection, self._limit):
                await self._transaction.commit()
        except Exception as error:
            if not is_lost(error):
                raise  # The server refused it, such as by a constraint that was deferred.
            abandon(self.connection)
            raise StoreError(
                f"{self._url.name}: the connection broke during a commit ({type(error).__name__})",
                transient=True,
                reason=StoreTrouble.OUTCOME_UNKNOWN,
            ) from error


def _comes_of_a_loss(error: BaseException | None) -> bool:
    """Whether a lost connection is what the exception is, or what it was raised because of."""
    seen = set[int]()
    while isinstance(error, Exception) and id(error) not in seen:
        if is_lost(error) or (
            isinstance(error, ExceptionGroup) and any(map(_comes_of_a_loss, error.exceptions))
        ):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


class EffectTransactions:
    """Opens transactions for effects, on whatever loop asks."""

    def __init__(
        self,
        url: PostgresUrl,
        sql: Mapping[str, str],
        suspicion: Suspicion,
        *,
        size: int,
        patience: float,
        limit: float,
    ) -> None:
        self._suspicion = suspicion
        self._url = url
        self._sql = sql
        self._size = size
        self._patience = patience
        self._limit = limit
        self._lanes: dict[asyncio.AbstractEventLoop, tuple[Pool, asyncio.Future[None]]] = {}
        self.pooled = False

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[OpenTransaction]:
        """A transaction on a connection that nobody else uses meanwhile."""
        stack = contextlib.AsyncExitStack()
        try:
            connection, transaction = await self._begin(stack)
            try:
                yield OpenTransaction(connection, transaction, self._url, self._limit)
            except BaseException as error:
                if await self._rolled_back(connection, transaction):
                    raise
                abandon(connection)
                if _comes_of_a_loss(error):
                    raise self._lost(error) from error
                raise
        finally:
            with contextlib.suppress(Exception):  # What is committed is no less so where the reset fails.
                await stack.aclose()

    async def _begin(self, stack: contextlib.AsyncExitStack) -> tuple[Any, Any]:
        try:
            connection: Any = await stack.enter_async_context((await self._pool()).lend(limit=LONGEST))
            transaction = connection.transaction(isolation="read_committed")
            await transaction.start()
            await connection.fetch(self._sql["effect_settings"])
        except Exception as error:
            raise translated(error, self._url) from error
        return connection, transaction

    def _lost(self, error: BaseException) -> StoreError:
        """The server went away and rolled everything back: it is not the function that failed."""
        return StoreError(
            f"{self._url.name}: the connection of an effect's transaction was lost before the commit "
            f"({self._url.hide(str(error)) or type(error).__name__}), so nothing that it wrote is stored",
            transient=True,
        )

    async def _rolled_back(self, connection: Any, transaction: Any) -> bool:
        try:
            with time_limit(connection, self._limit):
                await transaction.rollback()
        except (
            BaseException
        ):  # A second cancellation included: without its connection the transaction is over too.
            return False
        return True

    async def _pool(self) -> Pool:
        loop = asyncio.get_running_loop()
        for other in [other for other in self._lanes if other.is_closed()]:
            del self._lanes[other]
        if loop not in self._lanes:
            times = {"patience": self._patience, "limit": self._limit}
            pool = Pool(self._url, self._suspicion, size=self._size, effects=True, **times)
            self._lanes[loop] = pool, asyncio.ensure_future(pool.open(pooled=self.pooled))
        pool, opened = self._lanes[loop]
        await asyncio.shield(opened)
        return pool

    async def close(self) -> None:
        """Close every loop's connections where that loop still runs; the process's end closes the others."""
        pools, self._lanes = self._lanes, {}
        for loop, (pool, _) in pools.items():
            if loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(pool.close(), loop)
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(asyncio.wrap_future(closing), self._limit)
