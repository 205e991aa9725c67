"""The embedded store: one file, one writer connection, WAL with ``synchronous=FULL``."""

from effectlog.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
