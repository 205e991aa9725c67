"""Danger: user code changes the folder while a log is open by a relative path, and half of it goes elsewhere."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from effectlog import EffectLog, current_transaction, durable_task, effect


@effect(key="book:{order}", transactional=True)
def book(order: int) -> None:
    current_transaction().execute("INSERT INTO booked VALUES (?)", (order,))


@durable_task(name="store.moves elsewhere")
def moves(folder: str, order: int) -> str:
    os.chdir(folder)
    book(order)
    return str(Path.cwd())


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two folders with a database of one name each.

    The process is in the first, and is put back afterwards.
    """
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder in (here, elsewhere):
        folder.mkdir()
        with closing(sqlite3.connect(folder / "orders.db")) as connection:
            connection.execute("CREATE TABLE booked (id)")
    monkeypatch.chdir(here)
    return here, elsewhere


def booked(folder: Path) -> list[int]:
    with closing(sqlite3.connect(folder / "orders.db")) as connection:
        return [row[0] for row in connection.execute("SELECT id FROM booked")]


@pytest.mark.parametrize("address", ["orders.db", "sqlite:///orders.db", "./orders.db"])
async def test_what_an_effect_writes_goes_into_the_stores_own_file(
    folders: tuple[Path, Path], address: str
) -> None:
    here, elsewhere = folders
    async with EffectLog(address) as log:
        async with log.worker():
            run = await log.enqueue(moves, str(elsewhere), 7)
            assert await run.result(20) == str(elsewhere)
        with closing(sqlite3.connect(here / "orders.db", isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            await log.within(connection).enqueue(moves, str(elsewhere), 8)
            connection.execute("COMMIT")
        assert len(await log.list_runs()) == 2
    assert (booked(here), booked(elsewhere)) == ([7], [])
    assert [path.name for path in elsewhere.iterdir()] == ["orders.db"]


async def test_a_log_that_is_opened_after_the_change_is_the_one_that_was_made(
    folders: tuple[Path, Path],
) -> None:
    here, elsewhere = folders
    log = EffectLog("orders.db")
    os.chdir(elsewhere)
    async with log:
        await log.enqueue(moves, str(elsewhere), 9)
    async with EffectLog(here / "orders.db") as same:
        assert [record.task for record in await same.list_runs()] == ["store.moves elsewhere"]
