"""A forked child must not damage its parent's file, and a forgotten close must neither hang nor lose anything."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from support.child_processes import STORE, children

if TYPE_CHECKING:
    from pathlib import Path

FORKING = """
import warnings

warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)  # From Python 3.12 on.

async def child(store):
    for use in (store.apply([]), store.get("x"), store.changed()):
        try:
            await use
        except StoreClosed as error:
            assert "forked child" in str(error), error
        else:
            raise SystemExit("the child could use its parent's store")
    await store.close()
    own = SqliteStore(sys.argv[1])
    await own.open()
    await own.apply([c.CreateRuns((NewRun("of the child", "task", b"[]"),), "task")])
    await own.close()

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    await store.apply([c.CreateRuns((NewRun("before", "task", b"[]"),), "task")])
    return store

loop = asyncio.new_event_loop()
store = loop.run_until_complete(main())
pid = os.fork()
if pid == 0:
    asyncio.set_event_loop(None)
    asyncio.run(child(store))
    if sys.argv[2] == "hard":
        os._exit(0)
    sys.exit(0)
_, status = os.waitpid(pid, 0)
assert status == 0, status
for n in range(20):
    run = NewRun(f"after-{n}", "task", b"x" * 10_000)
    loop.run_until_complete(store.apply([c.CreateRuns((run,), "task")]))
loop.run_until_complete(store.close())
loop.close()
"""

FORGETFUL = """
async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    await store.apply([c.CreateRuns((NewRun("acknowledged", "task", b"[]"),), "task")])
    if sys.argv[2] == "kept":
        globals()["kept"] = store

asyncio.run(main())
"""


def runs_in(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return {run_id for (run_id,) in connection.execute("SELECT id FROM effectlog_runs")}


@pytest.mark.parametrize("end", ["hard", "soft"])
def test_a_forked_child_is_told_and_the_file_stays_whole(tmp_path: Path, end: str) -> None:
    path = tmp_path / "effectlog.db"
    with children(STORE + FORKING, path, end) as (child,):
        status, _, err = child.finish()
    assert (status, err) == (0, "")
    assert runs_in(path) == {"before", "of the child", *(f"after-{n}" for n in range(20))}


@pytest.mark.parametrize("how", ["dropped", "kept"])
def test_a_forgotten_close_neither_hangs_nor_loses_what_was_acknowledged(tmp_path: Path, how: str) -> None:
    path = tmp_path / "effectlog.db"
    with children(STORE + FORGETFUL, path, how) as (child,):
        status, _, err = child.finish()
    assert status == 0, err
    assert runs_in(path) == {"acknowledged"}
