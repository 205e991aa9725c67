"""Danger: rows that name our types by the module they lie in are not understood any more.

Errors and records were once stored as ``effectlog.errors.EffectConflict`` and ``effectlog.model:NotApplied``.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from support.executing import executed

from effectlog import EffectConflict, EffectLog, NotApplied, RunState, durable_task, effect

if TYPE_CHECKING:
    from pathlib import Path

calls: list[str] = []


@effect(key="refuse", final=[EffectConflict])
async def refuse() -> None:
    calls.append("refuse")
    raise EffectConflict("no", run_id="elsewhere", effect_key="k", parameters=["p"])


@effect(key="answer", final=[EffectConflict])
async def answer() -> Any:
    calls.append("answer")
    return NotApplied(new_operation=True)


@durable_task
async def twice(seen: NotApplied, state: RunState) -> list[str]:
    kinds = [str(await answer()), str(seen), state.name]
    try:
        await refuse()
    except EffectConflict as error:
        kinds.append(getattr(error, "type_name", "not replayed"))
    if "again" not in calls:
        raise ConnectionError("not yet")
    return kinds


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    calls.clear()


RENAMED = {
    ("effects", "error_type"): ("effectlog.EffectConflict", "effectlog.errors.EffectConflict"),
    ("effects", "result"): ("effectlog:NotApplied", "effectlog.model:NotApplied"),
    ("runs", "args"): ("effectlog:NotApplied", "effectlog.model:NotApplied"),
}


def spell_as_before(path: Path) -> None:
    """Write the names of our types as older builds did."""
    with sqlite3.connect(path) as connection:
        for (table, column), (now, then) in RENAMED.items():
            read = f"SELECT rowid, {column} FROM effectlog_{table} WHERE {column} IS NOT NULL"
            changed = 0
            for rowid, value in connection.execute(read).fetchall():
                old = (
                    value.replace(now, then)
                    if isinstance(value, str)
                    else value.replace(now.encode(), then.encode())
                )
                connection.execute(f"UPDATE effectlog_{table} SET {column} = ? WHERE rowid = ?", (old, rowid))
                changed += old != value
            assert changed == 1, (table, column)
    connection.close()


async def test_a_run_recorded_in_the_older_spelling_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with EffectLog(str(path), check_store=False) as log:
        record = await executed(log, twice.with_options(idempotency_key="k"), NotApplied(), RunState.HELD)
    assert record.state is RunState.FAILED
    spell_as_before(path)
    calls.append("again")
    async with EffectLog(str(path), check_store=False) as log:
        same = await log.enqueue(
            twice.with_options(idempotency_key="k"), NotApplied(), RunState.HELD
        )  # The fingerprints of arguments don't depend on the spelling.
        assert same.id == record.id
        await same.retry()
        async with log.worker(tasks=[twice]):
            kinds = await same.result(timeout=10)
        assert kinds == [
            "NotApplied(new_operation=True)",
            "NotApplied(new_operation=False)",
            "HELD",
            "effectlog.errors.EffectConflict",
        ]
        assert calls == ["answer", "refuse", "again"]
