"""SQLite's errors in effectlog's words, each with what to do next."""

from __future__ import annotations

import sqlite3
from typing import Any

from effectlog.errors import ConfigurationError, StoreClosed, StoreError, StoreTrouble

UNSTORABLE = (sqlite3.IntegrityError, OverflowError)
"""What was to be written breaks the rules of the tables, or is no 64-bit integer."""


def no_connection(transaction: Any) -> ConfigurationError:
    return ConfigurationError(
        f"a {type(transaction).__name__} is no connection of sqlite3, aiosqlite or SQLAlchemy, so nothing "
        f"can be "
        f"stored in its transaction"
    )


def translated(error: Exception, name: str) -> StoreError:
    """A driver's error in our words; ``transient`` says whether trying again can help."""
    text, reason = str(error), None
    if not hasattr(error, "sqlite_errorcode") and "closed" in text.lower():
        return StoreClosed(f"{name} is closed; open the log again")
    match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreError(
                f"store locked by another connection, of another process or of this one: {name}. It is "
                f"retried while "
                f"leases last; find who keeps a write transaction on the file open",
                transient=True,
            )
        case sqlite3.SQLITE_FULL:
            advice, reason = "the disk is full; free space on it", StoreTrouble.TAKES_NO_WRITES
        case sqlite3.SQLITE_READONLY:
            advice, reason = (
                "it is read-only; make the file and its folder writable",
                StoreTrouble.TAKES_NO_WRITES,
            )
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_NOMEM:
            advice, reason = (
                f"SQLite could not read or write it ({_named(error)}); {_IN_THE_WAY}",
                StoreTrouble.TAKES_NO_WRITES,
            )
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            advice = (
                f"it is damaged or no database ({text}); restore it from a backup, or choose another path"
            )
        case _:
            advice = text
    return StoreError(f"{name}: {advice}", transient=False, reason=reason)


_IN_THE_WAY = (
    "look for a full disk or quota, a limit of this process (RLIMIT_FSIZE, open files), missing rights and, "
    "in the "
    "system's log, a failing disk"
)


def _named(error: Exception) -> str:
    """The error with SQLite's own name for it, which tells one failing call from another."""
    return f"{error}, {getattr(error, 'sqlite_errorname', 'no code')}"
