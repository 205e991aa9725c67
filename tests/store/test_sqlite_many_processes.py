"""Processes that meet on one file must not lose each other's writes, and none of them may see a lock."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from support.child_processes import STORE, children

from effectlog.store.protocol import RunFilter
from effectlog.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

PROCESSES, RUNS = 16, 5

# One interpreter, forked before it has opened anything: starting sixteen would take most of the time.
CROWD = f"""
async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    for n in range({RUNS}):
        run = NewRun(f"{{os.getpid()}}-{{n}}", "task", b"[]")
        await store.apply([c.CreateRuns((run,), "task", "shared" if n == 0 else None)])
    claim = c.Claim(str(os.getpid()), "worker", 60.0, (c.TaskLimit(("task",)),), 3)
    while (claimed := (await store.apply([claim]))[0]).runs:
        say(" ".join(run.row.id for run in claimed.runs))
    await store.close()

ready, go = os.pipe()
pids = []
for _ in range({PROCESSES}):
    pids.append(os.fork())
    if pids[-1] == 0:
        os.close(go)
        os.read(ready, 1)  # Returns for all of them at the same time, when the other end is closed.
        asyncio.run(main())
        sys.exit(0)
os.close(go)
statuses = [os.waitpid(pid, 0)[1] for pid in pids]
assert statuses == [0] * {PROCESSES}, statuses
"""


async def test_sixteen_processes_open_a_missing_file_at_once_and_write_to_it(tmp_path: Path) -> None:
    path = tmp_path / "effectlog.db"
    with children(STORE + CROWD, path) as (crowd,):
        status, out, err = crowd.finish()
    assert (status, err) == (0, "")
    claimed = out.split()
    store = SqliteStore(path)
    await store.open()
    stored = [run.row.id for run in await store.find(RunFilter(limit=1000))]
    await store.close()
    assert len(stored) == PROCESSES * (RUNS - 1) + 1, "runs were lost, or one key created several"
    assert sorted(claimed) == sorted(stored), "a run was claimed twice, or by nobody"
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT count(*) FROM effectlog_migrations").fetchone()[0] >= 1
