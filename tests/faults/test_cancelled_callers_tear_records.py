"""Danger: a caller is cancelled in the middle of a write, and leaves half of a record or the write lock behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from support.fault_processes import whole

from effectlog import EffectLog, Retry, RunState, durable_task, effect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LARGE = "x" * 200_000
LONGEST_WAIT = 2.0
"""Seconds: many times what one write takes on a busy machine, and far below the busy timeout."""

NEIGHBOUR = """
import json, select, sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
longest, count = 0.0, 0
connection.execute("CREATE TABLE neighbour (number)")
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0.002)[0]:
    began = time.monotonic()
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO neighbour VALUES (?)", (count,))
    connection.execute("COMMIT")
    longest, count = max(longest, time.monotonic() - began), count + 1
print(json.dumps([longest, count]))
"""


@effect(key="large:{number}")
async def large(number: int) -> str:
    return LARGE


@durable_task(retry=Retry(delay=0.0))
async def writes_large(text: str) -> int:
    return sum([len(await large(number)) for number in range(3)])


@contextlib.contextmanager
def neighbour(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that takes the write lock again and again, and tells how long it waited at most."""
    process = subprocess.Popen(
        [sys.executable, "-c", NEIGHBOUR, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def written_beside(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM neighbour").fetchone()[0])


async def after(steps: int, task: asyncio.Task[object]) -> None:
    """Cancel the task at its n-th await, or so."""
    for _ in range(steps):
        if task.done():
            break
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    "rounds", [40, pytest.param(500, marks=[pytest.mark.long, pytest.mark.timeout(600)])]
)
async def test_every_record_is_whole_or_absent_and_nobody_waits_long(tmp_path: Path, rounds: int) -> None:
    path = tmp_path / "runs.db"
    chance = random.Random(rounds)
    async with EffectLog(path, check_store=False) as log:
        with neighbour(path) as other:
            number = 0
            # On until the neighbour has written as often as it takes to prove anything.
            while number < rounds or written_beside(path) <= rounds / 4:
                number += 1
                call = log.enqueue(writes_large, LARGE) if number % 2 else log.run(writes_large, LARGE)
                await after(chance.choice([number % 60, 10 * (number % rounds)]), asyncio.ensure_future(call))
            out, _ = other.communicate("stop\n", timeout=20)
        longest, count = json.loads(out)
        assert count > rounds / 4, "the neighbour got to write too seldom to prove anything"
        assert longest < LONGEST_WAIT, "a cancelled call kept the file locked"
        assert {run.state for run in await log.list_runs(limit=10_000)} <= {
            RunState.PENDING,
            RunState.SUCCEEDED,
        }
        async with log.worker(concurrency=8):  # What was stored goes on, whatever happened to its caller.
            for run in await log.list_runs(limit=10_000):
                assert await (await log.get_run(run.id)).result(30) == 3 * len(LARGE)
    with closing(sqlite3.connect(path)) as connection:
        for table, column in (("runs", "args"), ("effects", "result")):
            sizes = f"SELECT DISTINCT length({column}) FROM effectlog_{table}"
            assert len(connection.execute(sizes).fetchall()) == 1, f"a cut {column} is stored"
    assert whole(path)
