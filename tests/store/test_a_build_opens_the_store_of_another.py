"""Danger: two builds of effectlog use one file, and one of them reads what the other wrote as something else."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from effectlog.errors import StoreRefused
from effectlog.store import statements
from effectlog.store.sqlite import file as sqlite_file
from effectlog.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

BEFORE_THE_RELEASE = (1, 2, 3, 4)
"""The numbers that builds before the first release gave their migrations."""


def made_by_a_build_before_the_release(path: Path, newest: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(
            "CREATE TABLE effectlog_migrations "
            "(number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at REAL NOT NULL, mark TEXT)"
        )
        connection.execute("CREATE TABLE effectlog_runs (id TEXT PRIMARY KEY, args BLOB)")
        connection.execute("INSERT INTO effectlog_runs VALUES ('kept', x'5b5d')")
        rows = [(number, f"{number:04d}_x.sql", 1.0) for number in range(1, newest + 1)]
        connection.executemany(
            "INSERT INTO effectlog_migrations (number, name, applied_at) VALUES (?, ?, ?)", rows
        )


def everything_in(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


@pytest.mark.parametrize("newest", BEFORE_THE_RELEASE)
async def test_a_store_from_before_the_release_is_refused_and_left_as_it_is(
    tmp_path: Path, newest: int
) -> None:
    path = tmp_path / "effectlog.db"
    made_by_a_build_before_the_release(path, newest)
    before = everything_in(path)
    with pytest.raises(StoreRefused, match=rf"before its first release \(schema {newest}\).*another file"):
        await SqliteStore(path).open()
    assert everything_in(path) == before


async def test_a_build_from_before_the_release_refuses_a_store_of_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "effectlog.db"
    store = SqliteStore(path)
    await store.open()
    await store.close()
    before = everything_in(path)
    known = tuple((number, f"{number:04d}_x.sql", "SELECT 1;") for number in BEFORE_THE_RELEASE)
    monkeypatch.setattr(sqlite_file, "migrations", lambda dialect: known)
    with pytest.raises(StoreRefused, match=r"written by a newer effectlog \(schema 101, this one knows 4\)"):
        await SqliteStore(path).open()
    assert everything_in(path) == before


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_no_migration_has_a_number_from_before_the_release(dialect: str) -> None:
    assert min(number for number, _, _ in statements.migrations(dialect)) > max(BEFORE_THE_RELEASE)
