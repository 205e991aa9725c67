"""The PostgreSQL store, over asyncpg: the extra ``effectlog[postgres]``."""

from effectlog.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
