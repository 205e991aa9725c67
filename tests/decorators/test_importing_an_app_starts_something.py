"""Danger: a spawned process imports the app, and opens connections or threads that nobody asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

APP = """
import os, sys, threading

opened = []
watched = {{"sqlite3.connect", "socket.connect", "socket.bind"}}
sys.addaudithook(lambda event, args: opened.append(event) if event in watched else None)

from effectlog import EffectLog, durable_task, effect

log = EffectLog({db!r})

@effect(key="said:{{number}}")
def say(number):
    return number

@durable_task(on="spawn.event")
def work(number):
    return say(number)

def report():
    return {{
        "opened": list(opened),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "files": [target for fd in os.listdir("/proc/self/fd") if (target := _target(fd)).endswith((".db", "-wal", "-shm"))],
        "there": os.path.exists({db!r}),
    }}

def _target(fd):
    try:
        return os.readlink(f"/proc/self/fd/{{fd}}")
    except OSError:
        return ""

def use(number):
    with log:
        return log.sync.run(work.with_options(idempotency_key=f"n{{number}}"), number)
"""

SPAWNING = """
import json, multiprocessing, sys
sys.path.insert(0, sys.argv[1])
import spawn_app

if __name__ == "__main__":
    method = sys.argv[2]
    context = multiprocessing.get_context(method)
    parent = spawn_app.report()
    if sys.argv[3] == "open":
        spawn_app.log.__enter__()
        spawn_app.log.sync.enqueue(spawn_app.work, 0)
    with context.Pool(2) as pool:
        found = pool.apply(spawn_app.report)
        results = pool.map(spawn_app.use, [1, 2, 3]) if sys.argv[3] == "closed" else []
        pool.close()
        pool.join()
    if sys.argv[3] == "open":
        spawn_app.log.__exit__(None, None, None)
    print(json.dumps([parent, found, results]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="open files are looked up in /proc")
@pytest.mark.parametrize(
    ("method", "parents_log"), [("spawn", "closed"), ("spawn", "open"), ("forkserver", "open")]
)
def test_a_spawned_child_that_imports_the_app_has_opened_nothing(
    tmp_path: Path, method: str, parents_log: str
) -> None:
    db = str(tmp_path / "runs.db")
    (tmp_path / "spawn_app.py").write_text(APP.format(db=db))
    program = tmp_path / "program.py"
    program.write_text(SPAWNING)
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), method, parents_log],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    parent, child, results = json.loads(done.stdout)
    assert (parent["opened"], parent["files"], parent["there"]) == ([], [], False)
    assert parent["threads"] == ["MainThread"]
    assert child["opened"] == []
    assert child["files"] == [], "the child inherited the parent's open store"
    assert child["threads"] == ["MainThread"]
    assert results == ([1, 2, 3] if parents_log == "closed" else [])


def test_an_import_leaves_the_applications_loggers_alone() -> None:
    script = "import logging, effectlog.log; print('handle' in vars(logging.getLogger('effectlog')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
