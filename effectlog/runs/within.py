"""``log.within(transaction)``: runs made inside the caller's transaction, together with the caller's writes.

It is a target of ``enqueue`` and ``emit``, which do all the rest. Nothing is begun, committed or rolled back
here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from effectlog.context import place
from effectlog.errors import ConfigurationError
from effectlog.store import commands as c
from effectlog.store.protocol import Concurrent, JoinsTransactions

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from effectlog.context import RunningAttempt
    from effectlog.decorators.task import Task
    from effectlog.engine.engine import Engine
    from effectlog.runs.emit import Emitter
    from effectlog.runs.enqueue import Enqueuer
    from effectlog.runs.run import Run

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Within:
    """``enqueue`` and ``emit`` inside the caller's own transaction. Made by ``EffectLog.within``.

    What they make is seen by others when the transaction commits, and was never there if it rolls back: so
    is the key. The returned runs can be asked for their results after the commit.
    """

    def __init__(self, engine: Engine, enqueuer: Enqueuer, emitter: Emitter, transaction: Any) -> None:
        if not isinstance(engine.store, JoinsTransactions):
            raise ConfigurationError(f"{engine.store.name} can't store anything in a caller's transaction")
        self._engine = engine
        self._store: JoinsTransactions = engine.store
        self._enqueuer = enqueuer
        self._emitter = emitter
        self._transaction = transaction

    async def enqueue(self, task: Task[P, R, Any], /, *args: P.args, **kwargs: P.kwargs) -> Run[R]:
        """As ``EffectLog.enqueue``; durable when the caller's transaction has committed.

        Raises ConfigurationError where the connection is to another database, or in no transaction.
        After a StoreError or a control signal the transaction must be rolled back.
        """
        return await self._enqueuer.enqueue(task, args, kwargs, into=self)

    async def emit(
        self,
        event: str,
        payload: Any,
        *,
        idempotency_key: str | None = None,
        correlation_id: str | None = None,
    ) -> list[Run[Any]]:
        """As ``EffectLog.emit``; durable once the caller's transaction committed. Raises as ``enqueue``."""
        return await self._emitter.emit(
            event, payload, idempotency_key=idempotency_key, correlation_id=correlation_id, into=self
        )

    def blocking(self) -> BlockingWithin:
        """The same over a blocking driver."""
        return BlockingWithin(self._engine, self._enqueuer, self._emitter, self._transaction)

    async def apply(self, *commands: c.CreateRuns, attempt: RunningAttempt | None) -> list[c.Outcome]:
        """Store in the caller's transaction: for ``enqueue`` and ``emit``."""
        await self._wait_for_earlier_records(attempt)
        return await self._store.apply_within(self._transaction, commands)

    async def _wait_for_earlier_records(self, attempt: RunningAttempt | None) -> None:
        """A child must not be there before what its parent recorded earlier.

        Only where a store takes several transactions at a time: elsewhere the caller's own may be what those
        records wait for. A transactional effect's are all there when its function begins.
        """
        if attempt is None or place.get() is not attempt or not isinstance(self._engine.store, Concurrent):
            return
        await self._commit(attempt, c.CreateRuns((), scope="", fence=attempt.fence))

    async def _commit(self, attempt: RunningAttempt, command: c.Command) -> None:
        await self._engine.commit(command, until=attempt.lease_until, chain=attempt.chain)

    async def read(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Read from the store: for ``emit``."""
        return await self._engine.read(coroutine)


class BlockingWithin(Within):
    """The same over a blocking driver: nothing here ever waits for a loop."""

    async def apply(self, *commands: c.CreateRuns, attempt: RunningAttempt | None) -> list[c.Outcome]:
        await self._wait_for_earlier_records(attempt)
        return self._store.apply_within_sync(self._transaction, commands)

    async def read(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._engine.call(coroutine).result()

    async def _commit(self, attempt: RunningAttempt, command: c.Command) -> None:
        self._engine.commit_sync(command, until=attempt.lease_until, chain=attempt.chain)
