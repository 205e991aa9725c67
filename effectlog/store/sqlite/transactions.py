"""Commands inside somebody else's transaction on the same SQLite file, and transactions for effects.

On a borrowed connection nothing here commits or rolls back but to a savepoint of its own. The invariant:
what is reported is stored exactly if the other writes of the transaction are.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

from effectlog.errors import ConfigurationError, StoreError, StoreTrouble
from effectlog.store.caller_transactions import is_stale, no_transaction
from effectlog.store.sqlite.apply import perform
from effectlog.store.sqlite.errors import translated
from effectlog.store.sqlite.running_runs import RunningRuns
from effectlog.store.sqlite.savepoint import savepoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from effectlog.clock import Clock
    from effectlog.store import commands as c


def apply(
    connection: sqlite3.Connection, path: str, clock: Clock, commands: Sequence[c.Command]
) -> list[c.Outcome]:
    """Apply the commands in the connection's transaction; where one is refused or late, none of them."""
    factories = connection.row_factory, connection.text_factory
    connection.row_factory, connection.text_factory = None, str
    try:
        _check(connection, path)
        with savepoint(connection) as undo:
            outcomes = perform(connection, clock, RunningRuns(), commands)
            if any(map(is_stale, outcomes)):
                undo()
            return outcomes
    finally:
        connection.row_factory, connection.text_factory = factories


def _check(connection: sqlite3.Connection, path: str) -> None:
    file = next(row[2] for row in connection.execute("PRAGMA database_list") if row[1] == "main")
    if not file or path == ":memory:" or not Path(file).samefile(path):
        raise ConfigurationError(
            f"the connection is to {file or ':memory:'} and the store is {path}; only a transaction on the "
            f"store's own "
            f"file can hold both"
        )
    if connection.in_transaction:
        return
    if connection.isolation_level is None or getattr(connection, "autocommit", -1) is True:
        raise no_transaction()
    # The driver begins by itself with the first write, which this is.
    connection.execute("BEGIN IMMEDIATE")


class OpenTransaction:
    """A transaction that an effect writes in; it ends with ``commit``, or is rolled back."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    @property
    def is_open(self) -> bool:
        """Nobody has ended it."""
        return self.connection.in_transaction

    def commit(self) -> None:
        """Commit.

        Raises StoreError with ``StoreTrouble.OUTCOME_UNKNOWN`` where the disk did not say whether it has it.
        """
        self.connection.set_authorizer(None)
        try:
            self.connection.execute("COMMIT")
        except sqlite3.IntegrityError:
            raise  # A constraint that was deferred: nothing is committed.
        except sqlite3.Error as error:
            raise StoreError(
                f"the commit of an effect's transaction failed: {error}",
                transient=True,
                reason=StoreTrouble.OUTCOME_UNKNOWN,
            ) from error


@contextlib.contextmanager
def transaction(connect: Callable[[], sqlite3.Connection]) -> Iterator[OpenTransaction]:
    """A connection of its own, as durable as the store's, with the file's one write lock."""
    connection = connect()
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA foreign_keys = ON")
        # A transaction that reads first could not write once somebody else has written.
        connection.execute("BEGIN IMMEDIATE")
        connection.set_authorizer(_keep_open)
        yield OpenTransaction(connection)
    finally:
        connection.close()  # Rolls back what was not committed.


@contextlib.contextmanager
def explained(name: str) -> Iterator[None]:
    """Tell what went wrong with a statement of the function's where that is not the function's doing.

    A file that takes no writes fails them as it fails the store's own. And what ``_keep_open`` denied is
    called only "not authorized" by SQLite: say what to do instead.
    """
    try:
        yield
    except sqlite3.DatabaseError as error:
        trouble = translated(error, name)
        if trouble.reason is StoreTrouble.TAKES_NO_WRITES:
            raise trouble from error
        if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_AUTH:
            raise
        raise ConfigurationError(
            "a transactional effect can't commit, roll back or begin by itself: what it wrote is committed "
            "together "
            "with its record when the function returns, and rolled back when it raises; leave that call out"
        ) from error


def _keep_open(action: int, *_: Any) -> int:
    """What the function wrote must not be committed without its record: only savepoints are its own."""
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_TRANSACTION else sqlite3.SQLITE_OK
