"""Where new runs are stored: by the engine, or by ``within`` in a transaction of the caller's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from effectlog.context import Request, place
from effectlog.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from effectlog.context import RunningAttempt
    from effectlog.engine.engine import Engine
    from effectlog.store import commands as c

T = TypeVar("T")


class Target(Protocol):
    """Stores what an attempt, or code outside of any, makes; after all that the attempt has recorded."""

    async def apply(self, *commands: c.CreateRuns, attempt: RunningAttempt | None) -> list[c.Outcome]: ...
    async def read(self, coroutine: Coroutine[Any, Any, T]) -> T: ...


class ByEngine:
    """Stores in transactions of the engine's: durable on return."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def apply(self, *commands: c.CreateRuns, attempt: RunningAttempt | None) -> list[c.Outcome]:
        """Store, and return the outcomes. Raises ConfigurationError beside an effect's own transaction."""
        _check_no_transaction()
        return await self._engine.commit(*commands, chain=None if attempt is None else attempt.chain)

    async def read(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Read from the store."""
        return await self._engine.read(coroutine)


def _check_no_transaction() -> None:
    """Beside an effect's own transaction a run would outlive its rollback; on SQLite it would wait for it."""
    here = place.get()
    if isinstance(here, Request) and here.transaction is not None:
        raise ConfigurationError(
            "a transactional effect makes runs in its own transaction: use "
            "log.within(current_transaction()), or "
            "log.sync.within(...) in a sync effect"
        )
