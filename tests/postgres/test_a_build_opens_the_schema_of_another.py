"""Danger: two builds of effectlog use one schema, and one of them reads what the other wrote as something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.postgres_commands import psql

from effectlog.errors import StoreRefused
from effectlog.store.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

OPENING: dict[str, Callable[[PostgresStore], Coroutine[Any, Any, None]]] = {
    "open": PostgresStore.open,
    "migrate": PostgresStore.migrate,
}


@pytest.mark.parametrize("opening", OPENING)
async def test_a_schema_from_before_the_release_is_refused_and_left_as_it_is(
    postgres_url: str, postgres_schema: str, opening: str
) -> None:
    async with psql(postgres_url) as connection:
        await connection.execute(f"CREATE SCHEMA {postgres_schema}")
        await connection.execute(
            f"CREATE TABLE {postgres_schema}.migrations "
            "(number BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at DOUBLE PRECISION NOT NULL, mark TEXT)"
        )
        await connection.execute(f"INSERT INTO {postgres_schema}.migrations VALUES (3, '0003_x.sql', 1.0)")
    store = PostgresStore(postgres_url, schema=postgres_schema)
    with pytest.raises(StoreRefused, match=r"before its first release \(schema 3\).*or schema"):
        await OPENING[opening](store)
    async with psql(postgres_url) as connection:
        tables = f"SELECT relname FROM pg_class WHERE relnamespace = '{postgres_schema}'::regnamespace AND relkind = 'r'"
        assert [row[0] for row in await connection.fetch(tables)] == ["migrations"]


@pytest.mark.parametrize("opening", OPENING)
async def test_a_build_from_before_the_release_refuses_a_schema_of_today(
    postgres_url: str, postgres_schema: str, opening: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(postgres_url, schema=postgres_schema)
    await store.open()
    await store.close()
    known = tuple((number, f"{number:04d}_x.sql", "SELECT 1") for number in (1, 2, 3))
    monkeypatch.setattr("effectlog.store.postgres.schema.migrations", lambda dialect: known)
    with pytest.raises(StoreRefused, match=r"written by a newer effectlog \(schema 101, this one knows 3\)"):
        await OPENING[opening](store)
