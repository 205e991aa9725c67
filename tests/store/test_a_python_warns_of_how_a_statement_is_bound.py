"""SQLite's numbered parameters (``?1``) warn in Python 3.12.0 to 3.12.3, which Debian and Ubuntu ship, and fail under
``-W error``; a name without a value, or a value without a name, fails only when the statement is needed.
"""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from effectlog.store.sqlite.store import SqliteStore
from effectlog.store.statements import statements
from effectlog.testing.clock import MovableClock
from effectlog.testing.conformance import check_store

if TYPE_CHECKING:
    from pathlib import Path

SQL = statements("sqlite")
NOT_CODE = re.compile(r"--[^\n]*|'[^']*'")
PARAMETER = re.compile(r"\?\d*|[:@$]\w+")


def parameters_of(statement: str) -> list[str]:
    return PARAMETER.findall(NOT_CODE.sub("", statement))


@pytest.mark.parametrize("name", sorted(SQL))
def test_a_statement_numbers_no_parameter_and_mixes_no_ways_to_bind(name: str) -> None:
    used = set(parameters_of(SQL[name]))
    assert used == {"?"} or all(one.startswith(":") for one in used), used


class Strict(sqlite3.Connection):
    """Binds as the strictest Python does: places by a sequence, and names by a mapping that has them and no other."""

    seen: set[str]

    def execute(self, statement: str, bound: Any = (), /) -> sqlite3.Cursor:
        wanted = parameters_of(statement)
        if isinstance(bound, dict):
            assert set(wanted) == {f":{name}" for name in bound}, statement
        else:
            assert wanted == ["?"] * len(bound), statement
        self.seen.add(statement)
        return super().execute(statement, bound)


async def test_every_statement_gets_just_the_parameters_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Strict, "seen", set[str](), raising=False)
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *args, **options: connect(*args, factory=Strict, **options)
    )

    clock = MovableClock()

    async def open_store() -> SqliteStore:
        store = SqliteStore(str(tmp_path / "strict.db"), clock=clock)
        await store.open()
        return store

    report = await check_store(open_store, advance=clock.advance)
    assert report.failed == []
    store = await open_store()
    assert await store.next_lapse() is None
    await store.set_mark("seen")  # As the check at open does.
    assert not await store.dead_letters(store.clock.wall() + 1)  # As doctor does.
    await store.close()
    unseen = {name for name, one in SQL.items() if parameters_of(one) and one not in Strict.seen}
    assert unseen == {"fail_damaged"}  # It needs a damaged file: see test_damaged_rows.
