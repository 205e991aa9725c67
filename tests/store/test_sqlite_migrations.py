"""A migration that is half applied, or applied twice, costs people their data."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from importlib import resources
from typing import TYPE_CHECKING

import pytest

from effectlog.errors import StoreRefused
from effectlog.store import commands as c
from effectlog.store import statements
from effectlog.store.rows import NewRun
from effectlog.store.sqlite import file as sqlite_file
from effectlog.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path


def dialects() -> list[str]:
    return sorted(
        folder.name
        for folder in resources.files("effectlog.store").iterdir()
        if folder.name in ("sqlite", "postgres")
    )


async def fill(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.apply([c.CreateRuns((NewRun("old", "task", b"[]"),), "task")])
    await store.close()


def applied(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [
            number
            for (number,) in connection.execute("SELECT number FROM effectlog_migrations ORDER BY number")
        ]


@pytest.mark.parametrize("dialect", dialects())
def test_migrations_are_numbered_without_gaps_and_none_is_overlooked(dialect: str) -> None:
    folder = resources.files("effectlog.store") / dialect
    scripts = (file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    files = sorted(name for name in scripts if name != "queries.sql")
    known = statements.migrations(dialect)
    assert [name for _, name, _ in known] == files, (
        "a file name that is not NNNN_verb_noun.sql is never applied"
    )
    assert [number for number, _, _ in known] == [
        statements.UNRELEASED + place for place in range(1, len(known) + 1)
    ]


async def test_opening_again_applies_nothing(tmp_path: Path) -> None:
    path = tmp_path / "effectlog.db"
    await fill(path)
    before = applied(path)
    store = SqliteStore(path)
    await store.open()
    await store.close()
    assert applied(path) == before == [number for number, _, _ in statements.migrations("sqlite")]


def with_another(monkeypatch: pytest.MonkeyPatch, script: str) -> int:
    known = statements.migrations("sqlite")
    number = known[-1][0] + 1
    after = (*known, (number, "0002_try_this.sql", script))
    monkeypatch.setattr(sqlite_file, "migrations", lambda dialect: after)
    return number


async def test_a_new_migration_keeps_old_data_and_asks_for_a_new_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "effectlog.db"
    await fill(path)
    number = with_another(monkeypatch, "CREATE TABLE more (a);\nINSERT INTO more VALUES ('a;b');\n")
    store = SqliteStore(path)
    await store.open()
    assert await store.get("old") is not None
    assert await store.mark() is None
    await store.close()
    assert applied(path)[-1] == number


async def test_a_failing_migration_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "effectlog.db"
    await fill(path)
    before = applied(path)
    with_another(monkeypatch, "DELETE FROM effectlog_runs;\nINSERT INTO no_such_table VALUES (1);\n")
    store = SqliteStore(path)
    with pytest.raises(StoreRefused, match="no_such_table"):
        await store.open()
    assert applied(path) == before
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT id FROM effectlog_runs").fetchall() == [("old",)]


@pytest.mark.parametrize(
    "wrong",
    [
        "UPDATE effectlog_runs SET state = 'lost'",
        "UPDATE effectlog_runs SET state = 'running'",
        "UPDATE effectlog_runs SET state = 'succeeded'",
        "UPDATE effectlog_runs SET finished_at = 1",
        "UPDATE effectlog_runs SET result = x'00'",
        "UPDATE effectlog_runs SET attempt = -1",
        "UPDATE effectlog_effects SET state = 'completed', open_requests = 0, finished_at = 1",
        "UPDATE effectlog_effects SET open_requests = 0",
        "UPDATE effectlog_effects SET open_requests = 2",
        "UPDATE effectlog_effects SET finished_at = 1",
        "UPDATE effectlog_effects SET final = 1",
        "UPDATE effectlog_effects SET operation_id = 'short'",
        "UPDATE effectlog_effects SET policy = 'hope'",
        "UPDATE effectlog_attempts SET outcome = 'succeeded'",
        (
            "INSERT INTO effectlog_runs (id, task, state, due_at, created_at, args) VALUES ('old', 't', "
            "'pending', 1, 1, '')"
        ),
    ],
)
async def test_the_database_refuses_what_wrong_code_could_write(tmp_path: Path, wrong: str) -> None:
    import uuid

    from effectlog.model import AttemptOutcome, Policy, RunState
    from effectlog.store.rows import RequestClock

    path = tmp_path / "effectlog.db"
    await fill(path)
    store = SqliteStore(path)
    await store.open()
    clock = RequestClock(1.0, 1.0, "boot")
    start = c.StartEffect(c.Fence("old", 1), "k", 0, "k", str(uuid.uuid4()), 0, {}, Policy.RESEND, clock)
    await store.apply([c.Claim("a", "a", 60.0, (), 1, run_id="old"), start])
    if "runs" in wrong and "INSERT" not in wrong:
        await store.apply([c.EndAttempt(c.Fence("old", 1), AttemptOutcome.RELEASED, RunState.PENDING)])
    await store.close()
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(wrong)
