"""What must be true of a PostgreSQL server before effectlog trusts it, and bringing its schema up to date.

Everything of effectlog's lies in one PostgreSQL schema. Migrations run under an advisory lock, all of them in
one transaction; a role that may not create tables is enough once they have run.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from typing import TYPE_CHECKING, Any

from effectlog.errors import EffectLogWarning, StoreRefused
from effectlog.store.postgres.errors import NO_PRIVILEGE, sqlstate
from effectlog.store.statements import migrations, schema_refusal, statements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from effectlog.store.postgres.connections import Connection

ENCODINGS = frozenset({"UTF8", "SQL_ASCII"})
"""What holds any text; SQL_ASCII keeps the bytes as they come."""
OLDEST_SERVER = 140000
_TYPE_BY_NAME = re.compile(r"::(text|float8|bytea|regclass)\b")
"""The other types that statements cast to are words of the grammar, which no schema can redefine."""


def statements_for(schema: str) -> Mapping[str, str]:
    """The named statements, for this schema."""
    found = statements("postgres").items()
    return {name: _TYPE_BY_NAME.sub(r"::pg_catalog.\1", _in(schema, text)) for name, text in found}


def _in(schema: str, text: str) -> str:
    return text.replace("{schema}", schema)


def lock_key(schema: str, *parts: str) -> int:
    """A 64-bit advisory lock key of this schema's own."""
    digest = hashlib.sha256("\x1f".join(("effectlog", schema, *parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def owner_key(schema: str, owner: str) -> int:
    """The advisory lock that an owner's session holds."""
    return lock_key(schema, "owner", owner)


async def check_server(
    connection: Connection, sql: Mapping[str, str], name: str, *, writes: bool
) -> tuple[str, bool]:
    """Refuse a server that could lose what it acknowledged, or that can't be written where that is wanted.

    Returns the name of the statement that begins a durable transaction here, and whether a
    transaction pooler stands in between.
    """
    server = await _facts(connection, sql["begin_read"], sql["server_facts"])
    if server["version"] < OLDEST_SERVER:
        raise StoreRefused(
            f"{name}: PostgreSQL {server['version'] // 10000} is too old; 14 is the oldest that works"
        )
    if server["standby"]:
        raise StoreRefused(f"{name} is a read-only standby; name the primary's address in the URL")
    if writes and server["read_only"] == "on":
        raise StoreRefused(
            f"{name}: default_transaction_read_only is on for this role, and effectlog has to write; use "
            f"another role, or "
            f"ALTER ROLE … SET default_transaction_read_only = off"
        )
    if server["encoding"] not in ENCODINGS:
        raise StoreRefused(
            f"{name}: the database's encoding is {server['encoding']}, so a key, or the text of an error, "
            f"could turn out "
            f"not to be storable after its effect has happened; use a database made with ENCODING 'UTF8'"
        )
    if server["fsync"] == "off":
        warnings.warn(
            f"{name}: the server runs with fsync=off, so a power failure can lose whatever it acknowledged; "
            f"turn it on before trusting it with effects",
            EffectLogWarning,
            stacklevel=2,
        )
    durable = "begin_remote_apply" if server["synchronous_commit"] == "remote_apply" else "begin"
    transaction = await _facts(connection, sql[durable], sql["transaction_facts"])
    if transaction["synchronous_commit"] not in ("on", "remote_apply"):
        raise StoreRefused(
            f"{name}: synchronous_commit stays {transaction['synchronous_commit']!r} though effectlog sets "
            f"it, "
            f"so a commit that was answered could be lost; allow it to be changed"
        )
    # A pooler hands out cancel keys of its own, so its idea of the backend differs from the backend's.
    return durable, transaction["backend"] != connection.get_server_pid()


async def _facts(connection: Connection, begin: str, statement: str) -> Any:
    await connection.execute(begin)
    try:
        return await connection.fetchrow(statement)
    finally:
        await connection.execute("ROLLBACK")


async def ensure_schema(connection: Connection, sql: Mapping[str, str], schema: str, name: str) -> None:
    """Bring an older schema up to date where this role may, else say who has to.

    Raises StoreRefused for a schema that is newer, or from before the first release.
    """
    applied = await _applied(connection, sql)
    newest = _known(schema)[-1][0]
    if applied == newest:
        return
    _refuse_other(applied, newest, name)
    try:
        await migrate(connection, sql, schema, name)
    except Exception as error:
        if sqlstate(error) != NO_PRIVILEGE:
            raise
        raise StoreRefused(
            f"{name}: the schema {schema!r} is at version {applied} and has to be brought to {newest}, which "
            f"this role may not do; run 'effectlog migrate --store URL' with a role that may create tables"
        ) from error


async def migrate(connection: Connection, sql: Mapping[str, str], schema: str, name: str) -> None:
    """Create or update the schema in one transaction, one migrator at a time."""
    await connection.execute(sql["begin_plain"])
    try:
        await connection.fetch(sql["advisory_locks"], [lock_key(schema, "migrate")])
        if not await connection.fetchval(sql["schema_exists"]):
            # Even IF NOT EXISTS asks for the right to create, which the owner of a given schema may lack.
            await connection.execute(sql["create_schema"])
        if not await connection.fetchval(sql["tables_exist"]):
            await connection.execute(sql["create_migrations"])
        applied = await connection.fetchval(sql["schema_version"]) or 0
        _refuse_other(applied, _known(schema)[-1][0], name)
        for number, file_name, script in _known(schema):
            if number > applied:
                await connection.execute(script)
                await connection.execute(sql["save_migration"], number, file_name)
        await connection.execute("COMMIT")
    except BaseException:
        await connection.execute("ROLLBACK")
        raise


async def _applied(connection: Connection, sql: Mapping[str, str]) -> int:
    await connection.execute(sql["begin_plain"])
    try:
        if not await connection.fetchval(sql["tables_exist"]):
            return 0
        return int(await connection.fetchval(sql["schema_version"]) or 0)
    finally:
        await connection.execute("ROLLBACK")


def _known(schema: str) -> list[tuple[int, str, str]]:
    return [(number, file, _in(schema, script)) for number, file, script in migrations("postgres")]


def _refuse_other(applied: int, newest: int, name: str) -> None:
    refusal = schema_refusal(applied, newest, name)
    if refusal is not None:
        raise StoreRefused(refusal)
