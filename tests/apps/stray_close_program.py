"""Rounds of one SQLite file used in every way at once.

Prints what was acknowledged and is not there afterwards.

Each round: a process with several logs on the file, which acknowledges runs, opens and closes more logs, and
reads the file as a plain file; beside it the command line and a process forked in the middle; then SIGKILL at
a random moment.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path

from effectlog import EffectLog, durable_task

warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)


@durable_task(name="noted")
def noted(text: str) -> str:
    return text


def child(function, *args) -> int:
    """Run the function in a forked child, without a trace of pytest or of the parent's exit handlers."""
    pid = os.fork()
    if pid == 0:
        try:
            function(*args)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return pid


def acknowledge(log: EffectLog, acknowledged: int, tag: str) -> None:
    for number in range(10_000):
        run = log.sync.enqueue(noted, f"{tag} {number} {'x' * random.randrange(3_000)}")
        os.write(acknowledged, f"{run.id}\n".encode())


def busy(path: str, acknowledged: int, seed: int) -> None:
    """Two or three logs that write until the process is killed, and everything that may take their locks away."""
    random.seed(seed)
    names = [path, f"{path}.link"]
    logs = [EffectLog(random.choice(names), lease=5.0) for _ in range(random.choice([2, 3]))]
    for number, log in enumerate(logs):
        log.__enter__()
        tag = f"{os.getpid()}.{number}"
        threading.Thread(target=acknowledge, args=(log, acknowledged, tag), daemon=True).start()
    while True:
        time.sleep(random.random() / 100)
        match random.randrange(5):
            case 0:
                with EffectLog(random.choice(names)) as other:
                    other.sync.list_runs(limit=1)
            case 1:
                Path(path).read_bytes()
            case 2:
                with contextlib.closing(sqlite3.connect(path)) as connection:
                    connection.execute("SELECT count(*) FROM effectlog_runs").fetchone()
            case 3:
                os.waitpid(child(forked, path, acknowledged), 0)
            case 4:
                with contextlib.suppress(FileNotFoundError), Path(f"{path}-wal").open("rb") as wal:
                    wal.read(10)


def forked(path: str, acknowledged: int) -> None:
    """A log of its own in a child whose parent has some open."""
    with EffectLog(path) as log:
        run = log.sync.enqueue(noted, "of a child")
        os.write(acknowledged, f"{run.id}\n".encode())


def command_line(path: str) -> None:
    from effectlog.cli import main

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.argv = ["effectlog", "runs", "--store", path]
    with contextlib.suppress(SystemExit):
        main()


def lost(path: str, acknowledged: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        verdict = connection.execute("PRAGMA integrity_check").fetchall()
        stored = {row[0] for row in connection.execute("SELECT id FROM effectlog_runs")}
    missing = sorted(set(acknowledged.read_text().split()) - stored)
    return missing if verdict == [("ok",)] else [f"damaged: {verdict}", *missing]


def play(folder: Path, seed: int) -> list[str]:
    path = folder / f"round-{seed}.db"
    Path(f"{path}.link").symlink_to(path)
    told = folder / f"round-{seed}.told"
    acknowledged = os.open(told, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    chance = random.Random(seed)
    worker = child(busy, str(path), acknowledged, seed)
    while told.stat().st_size == 0:  # It writes from now on.
        time.sleep(0.002)
    deadline = time.monotonic() + chance.uniform(0.02, 0.2)
    while time.monotonic() < deadline:
        os.waitpid(child(command_line, str(path)), 0)
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    os.waitpid(child(command_line, str(path)), 0)
    os.close(acknowledged)
    return lost(str(path), told)


if __name__ == "__main__":
    folder, rounds, first = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    print(json.dumps({seed: play(folder, seed) for seed in range(first, first + rounds)}))
