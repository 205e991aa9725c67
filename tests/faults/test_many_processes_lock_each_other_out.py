"""Danger: processes that share one file fail with "database is locked", though each writes for a moment only."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from support.fault_processes import Crew, whole


@pytest.fixture
def crew(tmp_path):
    crew = Crew(tmp_path / "runs.db")
    yield crew
    crew.close()


@pytest.mark.parametrize(
    "seconds", [pytest.param(2.5), pytest.param(60.0, marks=[pytest.mark.long, pytest.mark.timeout(180)])]
)
def test_eight_processes_of_four_tasks_never_see_a_lock(crew: Crew, seconds: float) -> None:
    for _ in range(8):
        crew.start("mix", seconds=seconds, tasks=4)
    ended = {crew.wait(pid) for pid in list(crew.alive)}
    assert ended == {0}, crew.errors()
    assert "locked" not in crew.errors()
    with closing(sqlite3.connect(crew.db)) as connection:
        states = connection.execute("SELECT state, count(*) FROM effectlog_runs GROUP BY state").fetchall()
    assert [state for state, _ in states] == ["succeeded"]
    assert states[0][1] >= 8 * 4
    print(f"{states[0][1]} runs of 3 effects in {seconds} s")
    assert whole(crew.db)
