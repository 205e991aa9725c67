"""A server that could lose records, or whose schema doesn't fit, must be refused at open, without its password."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import pytest
from support.postgres_commands import create, do, new_run, psql, running
from support.postgres_server import Server, free_port

from effectlog.errors import ConfigurationError, EffectLogWarning, StoreRefused
from effectlog.model import RunState
from effectlog.store import commands as c
from effectlog.store.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import asyncpg


def _as_role(url: str, role: str, password: str = "secret") -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{role}:{password}@{parts.hostname}:{parts.port}"))


@contextlib.asynccontextmanager
async def _role(url: str, *settings: str) -> AsyncIterator[str]:
    """A role without the right to create anything."""
    name = f"worker_{free_port()}"
    async with psql(url) as connection:
        await connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'")
        for setting in settings:
            await connection.execute(f"ALTER ROLE {name} SET {setting}")
        try:
            yield name
        finally:
            await connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


async def test_a_worker_without_the_right_to_create_is_told_who_has_to(
    postgres_url: str, postgres_schema: str
) -> None:
    async with _role(postgres_url) as role:
        worker = PostgresStore(_as_role(postgres_url, role), schema=postgres_schema)
        with pytest.raises(StoreRefused, match="effectlog migrate --store URL") as caught:
            await worker.open()
        assert "secret" not in str(caught.value)
        await PostgresStore(postgres_url, schema=postgres_schema).migrate()
        async with psql(postgres_url) as connection:
            for grant in (
                f"USAGE ON SCHEMA {postgres_schema}",
                f"SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {postgres_schema}",
            ):
                await connection.execute(f"GRANT {grant} TO {role}")
        await worker.open()
        await worker.liveness.hold("owner")
        (fence,) = await running(worker, "owner")
        await worker.apply([c.CancelRun(fence.run_id, force=True)])
        assert await do(worker, c.Purge(0.0, (RunState.CANCELLED,), 10)) == c.Purged(1)
        assert (await worker.health())["schema"] == postgres_schema
        await worker.close()


async def test_a_newer_schema_is_refused(
    store: PostgresStore, postgres_url: str, postgres_schema: str
) -> None:
    async with psql(postgres_url) as connection:
        await connection.execute(f"INSERT INTO {postgres_schema}.migrations VALUES (9999, 'later', 0)")
    for attempt in ("open", "migrate"):
        other = PostgresStore(postgres_url, schema=postgres_schema)
        with pytest.raises(StoreRefused, match=r"newer effectlog \(schema 9999"):
            await getattr(other, attempt)()


async def test_many_open_a_fresh_database_at_once(postgres_url: str, postgres_schema: str) -> None:
    stores = [PostgresStore(postgres_url, schema=postgres_schema) for _ in range(8)]
    await asyncio.gather(*(store.open() for store in stores))
    assert (await do(stores[0], create(new_run()))).created
    await asyncio.gather(*(store.close() for store in stores))


async def test_a_standby_is_refused() -> None:
    """A real one: a copy of a primary that replays its log."""
    primary = await asyncio.to_thread(Server().start)
    standby = await asyncio.to_thread(primary.standby)
    try:
        await asyncio.to_thread(standby.start)
        store = PostgresStore(standby.url)
        with pytest.raises(StoreRefused, match="read-only standby; name the primary"):
            await store.open()
        both = f"postgresql://postgres@127.0.0.1:{standby.port},127.0.0.1:{primary.port}/postgres"
        store = PostgresStore(both)
        await store.open()
        assert (await do(store, create(new_run()))).created
        await store.close()
    finally:
        standby.stop(how=signal.SIGQUIT)
        primary.stop(how=signal.SIGQUIT)


async def test_commits_are_synchronous_whatever_the_default(postgres_url: str, postgres_schema: str) -> None:
    await PostgresStore(postgres_url, schema=postgres_schema).migrate()
    async with _role(postgres_url, "synchronous_commit = off") as role, psql(postgres_url) as connection:
        await connection.execute(f"GRANT USAGE ON SCHEMA {postgres_schema} TO {role}")
        await connection.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {postgres_schema} TO {role}")
        store = PostgresStore(_as_role(postgres_url, role), schema=postgres_schema)
        await store.open()
        seen = []

        async def look(connection: asyncpg.Connection, _: object) -> None:
            seen.append(await connection.fetchval("SHOW synchronous_commit"))

        await store._commits.run(store._users, look)  # type: ignore[arg-type]  # the driver has no types
        assert seen == ["on"]
        await store.close()


@pytest.mark.parametrize("role", ["postgres", "nobody_knows"])
async def test_no_message_holds_the_password(role: str, postgres_url: str, postgres_schema: str) -> None:
    parts = urlsplit(_as_role(postgres_url, role, "hunter%402"))
    closed = urlunsplit(parts._replace(netloc=f"{role}:hunter%402@127.0.0.1:{free_port()}"))
    for url in (closed, urlunsplit(parts._replace(path="/no_such_database"))):
        store = PostgresStore(url, schema=postgres_schema)
        assert "hunter" not in store.name
        with pytest.raises(StoreRefused) as caught:
            await store.open()
        assert "hunter" not in str(caught.value)
        assert store.name in str(caught.value)


@pytest.mark.parametrize(
    "url", ["mysql://u:hunter2@h/db", "postgresql://u:hunter2@[h/db", "postgresql://u:hunter2@h/d?pooler=x"]
)
def test_an_unusable_url_is_refused_before_anything(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        PostgresStore(url)
    assert "hunter2" not in str(caught.value)


def test_a_schema_that_would_need_quoting_is_refused() -> None:
    for schema in ("Bad", "a b", 'x"; DROP', "", "a" * 49):
        with pytest.raises(ConfigurationError, match="lower-case"):
            PostgresStore("postgresql://h/db", schema=schema)


async def test_a_server_without_fsync_is_warned_of() -> None:
    server = await asyncio.to_thread(Server(fsync="off").start)
    try:
        store = PostgresStore(server.url)
        with pytest.warns(EffectLogWarning, match="fsync=off"):
            await store.open()
        await store.close()
    finally:
        server.stop(how=signal.SIGQUIT)


async def test_a_role_whose_transactions_only_read_is_refused(
    postgres_url: str, postgres_schema: str
) -> None:
    await PostgresStore(postgres_url, schema=postgres_schema).migrate()
    async with _role(postgres_url, "default_transaction_read_only = on") as role:
        with pytest.raises(StoreRefused, match="default_transaction_read_only is on for this role"):
            await PostgresStore(_as_role(postgres_url, role), schema=postgres_schema).open()


async def test_a_database_that_does_not_hold_every_text_is_refused(postgres_url: str) -> None:
    """What can't be stored would be found out after the effect: an error's text is one of its outcome's parts."""
    database = f"latin_{free_port()}"
    async with psql(postgres_url) as connection:
        await connection.execute(
            f"CREATE DATABASE {database} TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"
        )
    try:
        store = PostgresStore(urlunsplit(urlsplit(postgres_url)._replace(path=f"/{database}")))
        with pytest.raises(StoreRefused, match=r"encoding is LATIN1.*ENCODING 'UTF8'"):
            await store.open()
    finally:
        async with psql(postgres_url) as connection:
            await connection.execute(f"DROP DATABASE {database} WITH (FORCE)")
