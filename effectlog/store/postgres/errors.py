"""What a failure of PostgreSQL or of its driver means: try the transaction again, connect again, or fail.

The one place that knows SQLSTATEs. Callers see ``StoreError`` with advice; the driver's own error is
its cause only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg  # type: ignore[import-untyped]  # the driver ships no type information

from effectlog.errors import StoreError, StoreRefused, StoreTrouble

if TYPE_CHECKING:
    from effectlog.store.url import PostgresUrl

# https://www.postgresql.org/docs/current/errcodes-appendix.html
# Beside the collisions: a statement that statement_timeout or pg_cancel_backend ended.
_CONFLICTS = frozenset({"40001", "40P01", "57014"})
LOCK_TIMEOUT = "55P03"
UNIQUE_VIOLATION = "23505"
DIVISION_BY_ZERO = "22012"
NO_PRIVILEGE = "42501"
TRANSACTION_ABORTED = "25P02"
_UNDEFINED = frozenset({"42P01", "3F000", "42703"})
_READ_ONLY = "25006"
# A shutdown, a crash, a time-out in an idle transaction, no free slot, and a primary that became a standby.
_LOST = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "53300", _READ_ONLY})
_BAD_CHARACTER = "22021"
_DISK_FULL = "53100"


class LostRaceError(Exception):
    """Somebody else inserted an idempotency key first; a new transaction will see it."""


def sqlstate(error: BaseException) -> str:
    return getattr(error, "sqlstate", None) or ""


def is_conflict(error: BaseException) -> bool:
    """The transaction left no trace, and another try may go through."""
    return isinstance(error, LostRaceError) or sqlstate(error) in _CONFLICTS


def is_unstorable(error: BaseException) -> bool:
    """What was to be written breaks the rules of the tables, or of their types."""
    return sqlstate(error)[:2] in ("22", "23") or isinstance(error, ValueError)


def is_lost(error: BaseException) -> bool:
    """The connection is of no use any more, or none could be had; another one may be."""
    state = sqlstate(error)
    if state:
        return state in _LOST or state.startswith("08")
    if isinstance(error, ValueError):  # A value that the driver can't send, or a bad URL.
        return False
    return isinstance(error, (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError))


def translated(error: BaseException, url: PostgresUrl) -> StoreError:
    """A driver's error in our words; ``transient`` says whether trying again can help."""
    if isinstance(error, StoreError):
        return error
    name, state = url.name, sqlstate(error)
    text = url.hide(str(error)) or type(error).__name__
    if isinstance(error, LostRaceError) or is_conflict(error):
        return StoreError(
            f"{name}: the transaction was broken off each time ({text}); try again", transient=True
        )
    if state == LOCK_TIMEOUT:
        return StoreError(
            f"{name}: a row is kept locked by somebody else's open transaction; find it in pg_stat_activity "
            f"(state 'idle in transaction') and end it",
            transient=True,
        )
    if state == "53300":
        return StoreError(
            f"{name}: the server has no connection left ({text}); raise max_connections or lower pool_size",
            transient=True,
        )
    if state == _READ_ONLY:
        return StoreError(f"{name}: the server takes no writes ({text})", transient=True)
    if is_lost(error):
        return StoreError(f"{name}: the server can't be reached ({text})", transient=True)
    if state == NO_PRIVILEGE:
        return StoreError(
            f"{name}: {text}; grant the worker's role its rights on the schema", transient=False
        )
    if state in _UNDEFINED:
        return StoreError(f"{name}: {text}; run 'effectlog migrate --store URL' first", transient=False)
    if state == _BAD_CHARACTER or isinstance(error.__cause__, UnicodeEncodeError):
        return StoreError(
            f"{name}: a key or name holds a NUL or a lone surrogate, which PostgreSQL's text can't; "
            f"nothing was stored",
            transient=False,
        )
    if state == _DISK_FULL:
        return StoreError(
            f"{name}: the server's disk is full; free space on it",
            transient=True,
            reason=StoreTrouble.TAKES_NO_WRITES,
        )
    return StoreError(f"{name}: {text}", transient=False)


def refused(error: BaseException, url: PostgresUrl) -> StoreRefused:
    """The same, for a store that can't be opened."""
    if isinstance(error, StoreRefused):
        return error
    state = sqlstate(error)
    if state.startswith("28") or state == "3D000":
        return StoreRefused(f"{url.name}: {url.hide(str(error))}; check user, password and database")
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return StoreRefused(f"{url.name}: no host accepts writes; name the primary's address in the URL")
    return StoreRefused(str(translated(error, url)))
