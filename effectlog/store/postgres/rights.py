"""What the role of this connection may do with effectlog's tables, asked at every open.

A missing right shows itself in the middle of the work otherwise, when an effect has happened, and row
security shows nothing at all: rows are not there, and an effect happens again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from effectlog.errors import StoreRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from effectlog.store.postgres.connections import Connection

READING = ("SELECT",)
WRITING = ("SELECT", "INSERT", "UPDATE", "DELETE")


async def check_rights(
    connection: Connection, sql: Mapping[str, str], schema: str, name: str, *, writes: bool
) -> None:
    """Refuse a role that lacks a right it will need, or from whom row security could hide a row.

    Raises StoreRefused, naming what is missing and the statement that grants it.
    """
    wanted = WRITING if writes else READING
    await connection.execute(sql["begin_plain"])
    try:
        missing = await connection.fetch(sql["missing_rights"], wanted)
        filtered = await connection.fetch(sql["filtered_tables"])
        role = await connection.fetchval(sql["current_role"])
    finally:
        await connection.execute("ROLLBACK")
    if missing:
        rights = ", ".join(f"{right} on {schema}.{table}" for table, right in missing)
        raise StoreRefused(
            f"{name}: the role {role} lacks {rights}; GRANT {', '.join(wanted)} ON ALL TABLES IN SCHEMA "
            f"{schema} TO {role}"
        )
    if filtered:
        tables = ", ".join(f"{schema}.{table} ({policies or 'no policy'})" for table, policies in filtered)
        raise StoreRefused(
            f"{name}: row security can hide or refuse rows for the role {role}: {tables}; a record that is "
            f"not seen "
            f"makes an effect happen twice. ALTER TABLE … DISABLE ROW LEVEL SECURITY, or CREATE POLICY … FOR "
            f"ALL TO "
            f"{role} USING (true) without a restrictive one, or ALTER ROLE {role} BYPASSRLS"
        )
