"""Fixtures: a store of each kind with a table of the application's own in the same database."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import asyncpg
import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def sqlite_path(tmp_path: Path) -> str:
    path = str(tmp_path / "orders.db")
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE orders (id TEXT, cents INTEGER)")
    connection.close()
    return path


@pytest.fixture
async def postgres(postgres_database: str) -> str:
    connection = await asyncpg.connect(postgres_database)
    await connection.execute("CREATE TABLE orders (id TEXT, cents BIGINT)")
    await connection.close()
    return postgres_database


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """The path or URL of a database with a table ``orders``."""
    return str(request.getfixturevalue("sqlite_path" if request.param == "sqlite" else "postgres"))
