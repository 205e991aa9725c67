"""What the stores share about transactions that belong to somebody else.

Nothing here begins, commits or rolls back. No driver is imported: a connection is told by what it can do.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from effectlog.errors import ConfigurationError
from effectlog.store import commands as c
from effectlog.store.rules.evidence import is_late_outcome

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

T = TypeVar("T")


async def driver_connection(transaction: Any) -> Any:
    """The driver's connection under a connection or session of SQLAlchemy; anything else as it is."""
    if hasattr(transaction, "get_raw_connection"):
        # SQLAlchemy begins on the server with the first statement only.
        await transaction.exec_driver_sql("SELECT 1")
        return (await transaction.get_raw_connection()).driver_connection
    if hasattr(transaction, "exec_driver_sql"):
        transaction.exec_driver_sql("SELECT 1")
        return transaction.connection.driver_connection
    if callable(getattr(transaction, "connection", None)):
        inner = transaction.connection()
        return await driver_connection(await inner if inspect.isawaitable(inner) else inner)
    return transaction


def refuse_awaited(transaction: Any) -> None:
    """Raise ConfigurationError for a connection that a blocking call can't use."""
    names = ("execute", "exec_driver_sql", "fetchval")
    if any(inspect.iscoroutinefunction(getattr(transaction, name, None)) for name in names):
        raise has_to_be_awaited()


def has_to_be_awaited() -> ConfigurationError:
    return ConfigurationError("this connection has to be awaited; use the asynchronous call for it")


def no_transaction() -> ConfigurationError:
    return ConfigurationError(
        "the connection is in no transaction, so there is nothing to be stored together with; begin one first"
    )


def check_commands(commands: Sequence[c.Command]) -> None:
    """Raise ConfigurationError for what can't be part of somebody else's transaction."""
    for command in commands:
        if not isinstance(command, (c.CreateRuns, c.FinishEffect)):
            raise ConfigurationError(f"{type(command).__name__} can't be part of a caller's transaction")


def is_stale(outcome: c.Outcome) -> bool:
    """The attempt no longer owns its run, so the caller's writes must not be committed with it either.

    An outcome that only evidence makes of it would settle the effect; but here it can still be undone.
    """
    if not isinstance(outcome, c.EffectStored):
        return isinstance(outcome, c.Refused)
    return outcome.late or is_late_outcome(outcome.effect.resolved_by or "")


def without_waiting(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine over a blocking driver, which never waits for a loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise AssertionError  # A connection that has to be awaited was refused before.
