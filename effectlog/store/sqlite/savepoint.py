"""A part of a SQLite transaction that can be undone alone."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def savepoint(connection: sqlite3.Connection) -> Iterator[Callable[[], None]]:
    """Undo what is written inside if it raises; what is yielded undoes it without an error.

    Nothing is left to undo where SQLite has ended the whole transaction, as for a full disk.
    """

    def undo() -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK TO effectlog")

    connection.execute("SAVEPOINT effectlog")
    try:
        yield undo
    except BaseException:
        undo()
        raise
    finally:
        if connection.in_transaction:
            connection.execute("RELEASE effectlog")
