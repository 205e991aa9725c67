"""Fixtures for the tests of the PostgreSQL store: each test has a schema of its own on one real server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from effectlog.store.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


@pytest.fixture
async def open_store(
    postgres_url: str, postgres_schema: str
) -> AsyncIterator[Callable[..., Awaitable[PostgresStore]]]:
    """Opens any number of stores on the test's schema, as as many processes would have; closes them."""
    opened = []

    async def open_one(**options: object) -> PostgresStore:
        store = PostgresStore(postgres_url, schema=postgres_schema, **options)  # type: ignore[arg-type]
        opened.append(store)
        await store.open()
        return store

    yield open_one
    for store in opened:
        await store.close()


@pytest.fixture
async def store(open_store: Callable[..., Awaitable[PostgresStore]]) -> PostgresStore:
    return await open_store()
