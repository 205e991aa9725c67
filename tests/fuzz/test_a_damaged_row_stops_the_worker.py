"""Danger: one row that nobody can read any more keeps a worker from executing all the others, or sends again."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support import damage

from effectlog import EffectLog, EffectLogError
from effectlog.cli.main import command_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


async def test_every_damaged_column_fails_its_own_run_at_most(tmp_path: Path) -> None:
    path = tmp_path / "damaged.db"
    damaged = await damage.damaged_store(path)
    assert len(damaged) > 150, "the database refuses nearly everything, so nothing is tried"
    damage.requested.clear()
    async with EffectLog(path) as log:
        async with log.worker():
            async with asyncio.timeout(40):
                assert await (await log.get_run("whole")).result() == ["kept", "sent"]
                told = await damage.all_explained(log, list(damaged))
            fresh = await log.enqueue(damage.body, "fresh")
            assert await fresh.result(10) == ["new", "sent"], "the worker does not claim any more"
        records = {record.id for record in await log.list_runs(task="fuzz.damaged", state="failed")}
        assert len(records) > 20, "the list does not show what failed"
    again = [run for run, key in damage.requested if key == "done" and run != "fresh"]
    assert again == [], "what was recorded as completed was requested again"
    assert sum("Damaged" in str(what) for what in told.values()) > 15


@pytest.fixture
async def working(tmp_path: Path) -> Path:
    """A store with a run of each kind that a table beside the runs is about, and with a worker's report."""
    path = tmp_path / "damaged.db"
    async with EffectLog(path) as log, log.worker():
        await (await log.enqueue(damage.body.with_options(idempotency_key="k"), "first")).result(10)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        now = time.time()
        put(connection, "effectlog_workers", [("gone", "w", "h", 1, 1, now, now, '["other.task"]')])
        put(connection, "effectlog_subscriptions", [("fuzzed", "other.task", "run", "{run}", '["before"]')])
    return path


def put(connection: sqlite3.Connection, table: str, rows: list[tuple[Any, ...]]) -> None:
    """Let the table hold these rows and no others."""
    connection.execute(f"DELETE FROM {table}")
    connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)


def columns() -> list[tuple[str, Any]]:
    kinds = {
        "effectlog_workers": {"owner": "TEXT", "worker": "TEXT", "host": "TEXT", "tasks": "TEXT"}
        | {"pid": "INTEGER", "concurrency": "INTEGER", "beat_at": "REAL", "claimed_at": "REAL"},
        "effectlog_subscriptions": dict.fromkeys(
            ("event", "task", "parameter", "concurrency_key", "aliases"), "TEXT"
        ),
        "effectlog_idempotency_keys": dict.fromkeys(("fingerprints", "run_ids"), "TEXT"),
        "effectlog_migrations": {"name": "TEXT", "mark": "TEXT"},
    }
    return [
        (f"{table}.{column}", value)
        for table, columns in kinds.items()
        for column, kind in columns.items()
        for value in damage.VALUES[kind][:2]
    ]


async def test_tables_beside_the_runs_may_be_damaged_too(working: Path) -> None:
    # One store for all of it, a damage after the other: what a damage did must not outlast it either.
    tables = {place.split(".")[0] for place, _ in columns()}
    with closing(sqlite3.connect(working)) as connection:
        whole = {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
    tried = 0
    for place, value in columns():
        table, column = place.split(".")
        with closing(sqlite3.connect(working, isolation_level=None)) as connection:
            for name, rows in whole.items():
                put(connection, name, rows)
            try:
                connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
            except sqlite3.IntegrityError:
                continue
        tried += 1
        await use(working, f"{place} = {value!r}")
    assert tried > 20


@contextmanager
def refused_by_name(name: str, damaged: str) -> Iterator[None]:
    """Whatever is refused inside is refused in our words, with the name of what can't be read."""
    message = name
    try:
        yield
    except EffectLogError as error:
        message = str(error)
    assert name in message, damaged


async def use(path: Path, damaged: str) -> None:
    """What people do every day works, or says in our words what is damaged."""
    async with EffectLog(path) as log, log.worker():
        fresh = await log.enqueue(damage.body, "fresh")
        assert await fresh.result(10) == ["new", "sent"], damaged
        with refused_by_name("'k'", damaged):
            run = await log.enqueue(damage.body.with_options(idempotency_key="k"), "first")
            assert not run.created, f"{damaged}: the key made a second run"
        with refused_by_name("'fuzzed'", damaged):
            await log.emit("fuzzed", 1)
    if "workers" not in damaged:
        return  # What the commands show beside the runs is who works.
    for command in (["runs"], ["doctor"]):
        done = await asyncio.to_thread(CliRunner().invoke, command_line, [*command, "--store", str(path)])
        assert done.exit_code in (0, 1), (damaged, done.stderr)
        assert "Traceback" not in done.stderr
        assert "Error:" not in done.stderr, (damaged, done.stderr)
