"""A path, a URL or a store object, as the store that a log uses."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import unquote

from effectlog.errors import ConfigurationError


def resolve_store(store: Any) -> Any:
    """The store behind ``EffectLog``'s first argument.

    Raises ConfigurationError for an unknown URL scheme, or a store whose extra is not installed.
    """
    if isinstance(store, os.PathLike):
        return _sqlite(os.fspath(store))
    if not isinstance(store, str):
        if callable(getattr(store, "apply", None)):
            return store
        raise ConfigurationError(
            f"EffectLog({store!r}): give a path such as 'orders.db', a URL, or a store object"
        )
    path = sqlite_path(store)
    return _postgres(store) if path is None else _sqlite(path)


def sqlite_path(store: str) -> str | None:
    """Return the file that a path or URL names (or ``":memory:"``); None for a PostgreSQL database.

    Raises ConfigurationError for an unknown URL scheme.
    """
    scheme = store.partition("://")[0].lower() if "://" in store else ""
    if not scheme and (mistyped := re.match(r"(sqlite|postgres|postgresql)(\+\w+)?:", store, re.IGNORECASE)):
        # Taken for a file's name, it would be shown as one, with the password that it holds.
        raise ConfigurationError(
            f"a store's URL begins with {mistyped[1]}:// (two slashes); the one given does not, and is not "
            f"repeated "
            f"here because it may hold a password"
        )
    if "+" in scheme and scheme.partition("+")[0] in ("sqlite", "postgres", "postgresql"):
        raise ConfigurationError(
            f"a store's URL names no driver: write {scheme.partition('+')[0]}://… instead of {scheme}://…"
        )
    if scheme in ("", "file"):
        return store[len("file://") :] if scheme else store
    if scheme == "sqlite":
        # As elsewhere: three slashes begin a relative path, four an absolute one.
        return _file_of(store, store[len("sqlite://") :].removeprefix("/"))
    if scheme in ("postgresql", "postgres"):
        return None
    raise ConfigurationError(
        f"store {scheme}://… is not known; give a path such as 'orders.db', sqlite:///orders.db or "
        f"postgresql://…"
    )


def _file_of(url: str, path: str) -> str:
    # As a file name, a misread URL would be another store, and an empty one would be gone with the process.
    if not path:
        raise ConfigurationError(
            f"{url} names no file; give sqlite:///orders.db, or ':memory:' for a log that is gone when it is "
            f"closed"
        )
    if "?" in path:
        raise ConfigurationError(
            f"{url}: nothing is set in an SQLite URL; leave out what follows the '?', or write %3F if it "
            f"belongs to the "
            f"file's name"
        )
    return unquote(path)


def _sqlite(path: str) -> Any:
    from effectlog.store.sqlite import SqliteStore  # noqa: PLC0415 - keeps 'import effectlog' light

    if not path:
        raise ConfigurationError("the store's path is empty; give a path such as 'orders.db'")
    return SqliteStore(path)


def _postgres(url: str) -> Any:
    try:
        from effectlog.store.postgres import PostgresStore  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigurationError(
            "PostgreSQL needs its extra; install it with: pip install 'effectlog[postgres]'"
        ) from error
    return PostgresStore(url)
