"""Danger: a database that an older effectlog made is not brought up to date, or loses what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers import create, new_run, psql

from effectlog.store import commands as c
from effectlog.store import statements
from effectlog.store.postgres.store import PostgresStore

if TYPE_CHECKING:
    import pytest


async def test_a_schema_of_the_first_version_is_brought_up_to_date(
    postgres_url: str, postgres_schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run()
    store = PostgresStore(postgres_url, schema=postgres_schema)
    with monkeypatch.context() as before:
        before.setattr(
            "effectlog.store.postgres.schema.migrations", lambda dialect: statements.migrations(dialect)[:1]
        )
        await store.open()
        await store.apply([create(run)])
        await store.close()
    async with psql(postgres_url) as connection:
        await connection.execute(
            f"INSERT INTO {postgres_schema}.subscriptions VALUES ('paid', 'ship', 'order', NULL)"
        )
        assert await connection.fetchval(f"SELECT max(number) FROM {postgres_schema}.migrations") == 1
    store = PostgresStore(postgres_url, schema=postgres_schema)
    await store.open()
    assert await store.subscriptions("paid") == [c.Subscription("paid", "ship", "order")]
    assert await store.get(run.id) is not None
    await store.close()
    async with psql(postgres_url) as connection:
        numbers = await connection.fetch(f"SELECT number FROM {postgres_schema}.migrations ORDER BY number")
    assert [row[0] for row in numbers] == [number for number, _, _ in statements.migrations("postgres")]
