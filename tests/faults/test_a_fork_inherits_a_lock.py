"""Danger: a process forks while a thread of the log holds a lock, and the child waits for it for ever."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from support import APPS
from support.fault_processes import whole

PROGRAM = APPS / "fork_program.py"


@pytest.mark.parametrize("forks", [12, pytest.param(300, marks=[pytest.mark.long, pytest.mark.timeout(300)])])
def test_a_child_forked_in_the_middle_of_writes_works_with_a_log_of_its_own(tmp_path, forks: int) -> None:
    db = tmp_path / "runs.db"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(db), str(forks)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [0] * forks, done.stderr
    assert whole(db)
    with closing(sqlite3.connect(db)) as connection:
        keys = "SELECT count(*) FROM effectlog_runs WHERE idempotency_key LIKE 'child-%'"
        assert connection.execute(keys).fetchall() == [(forks,)]
