"""Fixtures for the tests of the PostgreSQL store: each test has a schema of its own on one real server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))  # where postgres_server.py stands

from postgres_server import postgres_database, postgres_schema, postgres_url

from effectlog.store.postgres import PostgresStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

__all__ = ["postgres_database", "postgres_schema", "postgres_url"]


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
