"""A transaction until its outcome is known: committed, tried again after a collision or a lost connection.

Every transaction that wrote something raises the number of its *writer* (a row of its own) as the last
thing before COMMIT. When the answer to a COMMIT is lost, that number tells whether it landed; asking
also moves the number on, so that a COMMIT still on its way can't land afterwards. The invariant: a
unit of work is repeated only when its earlier try is known not to have landed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from effectlog.errors import StoreError, StoreTrouble
from effectlog.store.postgres.connections import APPLICATION, Connection, abandon
from effectlog.store.postgres.errors import (
    DIVISION_BY_ZERO,
    LOCK_TIMEOUT,
    LostRaceError,
    is_conflict,
    is_lost,
    sqlstate,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from effectlog.store.postgres.connections import Pool

T = TypeVar("T")

FIND_OUT = 60.0
"""Seconds to go on asking what became of a commit before saying that it isn't known."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.5


@dataclass(slots=True)
class Writer:
    """A row whose number says how many transactions of this writer have landed."""

    id: int = field(default_factory=lambda: secrets.randbits(62))
    batch: int = 0
    backend: int = 0
    """The server process of its latest transaction."""


@dataclass(slots=True)
class TransactionState:
    """What one try of a unit of work says of itself."""

    wrote: bool = False
    """It wrote something, or tells what has to be as durable as a write: it needs a commit that counts."""


Unit: TypeAlias = Callable[[Connection, TransactionState], Awaitable[T]]


class _NotLandedError(Exception):
    """The commit's answer was lost because of ``cause``, and it did not land: try again."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Transactions:
    """Runs units of work, each in a transaction of its own."""

    def __init__(self, sql: Mapping[str, str], name: str) -> None:
        self._sql = sql
        self._name = name
        self.begin = sql["begin"]
        self.pooled = False
        self._orphans: set[int] = set()
        """Server processes whose transaction we abandoned, and which may not know it yet."""
        self._writers: list[Writer] = []

    async def read(self, pool: Pool, work: Unit[T], *, one_statement: bool, limit: float | None = None) -> T:
        """As ``run``, for work that only reads, in one snapshot."""
        bare = one_statement and not self.pooled
        return await self._again(pool, lambda: self._read(pool, work, limit, bare=bare))

    async def run(self, pool: Pool, work: Unit[T], *, limit: float | None = None) -> T:
        """Run ``work`` in a transaction of at most ``limit`` seconds, durable on return.

        Raises StoreError or the driver's error, after ``pool.patience`` seconds of trying.
        """
        return await self._again(pool, lambda: self._write(pool, work, limit))

    async def _again(self, pool: Pool, once: Callable[[], Awaitable[T]]) -> T:
        deadline = time.monotonic() + pool.patience
        pause = _FIRST_PAUSE
        for tries in itertools.count(1):
            try:
                return await once()
            except Exception as error:
                cause = error.cause if isinstance(error, _NotLandedError) else error
                # A connection that went silent uses the time up, and a fresh one may do at once: two tries at
                # least.
                late = tries > 1 and time.monotonic() + pause > deadline
                if late or not (is_conflict(cause) or is_lost(cause)):
                    raise cause from error.__cause__
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - jitter is no secret
            pause = min(pause * 2, _LONGEST_PAUSE)
        raise AssertionError  # The loop has no other end.

    async def _read(self, pool: Pool, work: Unit[T], limit: float | None, *, bare: bool) -> T:
        async with pool.lend(limit=limit) as connection:
            if bare:  # A statement is a snapshot by itself, and costs one round trip instead of three.
                return await work(connection, TransactionState())
            await connection.execute(self._sql["begin_read"])
            try:
                return await work(connection, TransactionState())
            finally:
                await _roll_back(connection)

    async def _write(self, pool: Pool, work: Unit[T], limit: float | None) -> T:
        writer = self._writers.pop() if self._writers else Writer()
        try:
            async with pool.lend(limit=limit) as connection:
                await self._end_orphans(connection)
                result, lost = await self._transact(connection, writer, work)
            if lost is not None:
                await self._find_out(pool, writer, lost)
        finally:
            self._writers.append(writer)
        return result

    async def _transact(
        self, connection: Connection, writer: Writer, work: Unit[T]
    ) -> tuple[T, Exception | None]:
        """The work's result, with the error of a COMMIT whose outcome isn't known."""
        writer.backend = connection.get_server_pid()
        try:
            await connection.execute(self.begin)
            state = TransactionState()
            result = await work(connection, state)
            if not state.wrote:
                await connection.execute("ROLLBACK")
                return result, None
            if writer.batch == 0:
                await connection.execute(self._sql["add_writer"], writer.id)
        except BaseException as error:
            if is_lost(error):
                self._orphans.add(writer.backend)
            await _roll_back(connection)
            raise
        return result, await self._commit(connection, writer)

    async def _end_orphans(self, connection: Connection) -> None:
        """End transactions that were abandoned here: they would lock rows until the server notices."""
        while self._orphans and not self.pooled:
            backend = self._orphans.pop()
            if backend != connection.get_server_pid():
                await connection.fetch(self._sql["end_backend"], backend, APPLICATION)

    async def _commit(self, connection: Connection, writer: Writer) -> Exception | None:
        statement = self._sql["commit"].format(writer=writer.id, batch=writer.batch + 1)
        try:
            await connection.execute(statement)
        except Exception as error:
            if is_lost(error):
                abandon(connection)
                return error
            await _roll_back(connection)
            if sqlstate(error) == DIVISION_BY_ZERO:
                # The row is gone (an operator tidied up): nothing was committed; begin a new one.
                writer.id, writer.batch = Writer().id, 0
                raise _NotLandedError(LostRaceError("this writer's row was removed")) from error
            raise
        writer.batch += 1
        return None

    async def _find_out(self, pool: Pool, writer: Writer, lost: Exception) -> None:
        """Return if the transaction landed; raise if it did not, or if nobody can say."""
        batch = writer.batch + 1
        waits = False
        deadline = time.monotonic() + FIND_OUT
        pause = _FIRST_PAUSE
        while time.monotonic() < deadline:
            try:
                async with pool.lend() as connection:
                    landed = await self._ask(connection, writer.id, batch)
            except Exception as error:  # Whatever keeps us from asking, the question stays.
                waits = sqlstate(error) == LOCK_TIMEOUT
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            if landed:
                writer.batch = batch
                return
            writer.batch = batch + 1
            self._orphans.add(writer.backend)  # Its commit can't succeed any more, so it may be ended.
            raise _NotLandedError(lost)
        writer.id, writer.batch = Writer().id, 0
        since = (
            "the server is still at it, as where it waits for a synchronous standby: bring the standby back"
        )
        if not waits:
            since = "the server has been away since: look when it is back"
        raise StoreError(
            f"{self._name}: a commit was not answered in time, and for {FIND_OUT:g} s nobody could say what "
            f"became "
            f"of it: whether these records are stored is not known; {since}",
            transient=False,
            reason=StoreTrouble.OUTCOME_UNKNOWN,
        ) from lost

    async def _ask(self, connection: Connection, writer_id: int, batch: int) -> bool:
        """Whether the batch landed; if not, it never can any more."""
        await connection.execute(self.begin)
        try:
            given_up = await connection.fetchval(self._sql["give_up_batch"], writer_id, batch)
            number = await connection.fetchval(self._sql["read_batch"], writer_id)
            await connection.execute("COMMIT")
        except BaseException:
            await _roll_back(connection)
            raise
        return given_up is None and number == batch

    async def close(self, pool: Pool) -> None:
        """Remove the rows of this process's writers, where the server is there to do it."""
        for writer in self._writers:
            if writer.batch:
                with contextlib.suppress(Exception):
                    async with pool.lend() as connection:
                        await connection.execute(self._sql["remove_writer"], writer.id)
        self._writers.clear()


async def _roll_back(connection: Connection) -> None:
    """End the transaction; a connection on which that fails is of no use."""
    try:
        await connection.execute("ROLLBACK")
    except Exception:
        abandon(connection)
