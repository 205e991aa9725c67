"""Figures that need processes of their own: takeover, import, and new work for an idle worker."""

from __future__ import annotations

import asyncio
import contextlib
import random
import subprocess
import sys
import time
from statistics import median, quantiles
from typing import TYPE_CHECKING

import psutil

from benchmarks.failure_window.judging import judge
from benchmarks.failure_window.runner import Times, play
from benchmarks.failure_window.scenarios import CASES
from benchmarks.failure_window.worker import StoreAt
from benchmarks.throughput import work
from benchmarks.throughput.figures import Figure, spread
from effectlog import EffectLog
from effectlog.testing.destinations import CountingDestination

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_LEASE = 30.0


def measure_takeover(folder: Path, repetitions: int) -> Figure:
    """From the SIGKILL of one worker to the begin of the other one's attempt."""
    took = asyncio.run(_takeovers(folder, repetitions))
    name = f"takeover after SIGKILL, lease {_LEASE:.0f} s"
    return Figure(
        name, spread(took, "ms"), "the lease", f"{max(took) / _LEASE / 10:.2f}%", aim="100 ms", each=took
    )


async def _takeovers(folder: Path, repetitions: int) -> list[float]:
    case = next(case for case in CASES if case.id == "S5-keyed")
    took: list[float] = []
    with CountingDestination("replay", process=True) as destination:
        for number in range(repetitions):
            store = StoreAt(str(folder / f"takeover-{number}.db"))
            record = await play(case, number, store, destination, Times(_LEASE, 0.0), asyncio.Lock())
            judgement = judge(record | {"store": "sqlite"}, case)
            assert not judgement.wrong, judgement.wrong
            took.append(judgement.takeover or 0.0)
    return took


def measure_import(repetitions: int) -> Figure:
    """In a fresh process each, with compiled files in place."""
    ours, bare = [], []
    for _ in range(repetitions):
        bare.append(_import("asyncio"))
        ours.append(_import("effectlog"))
    return Figure(
        f"import effectlog ({median(cpu for _, cpu in ours):.0f} ms of CPU)",
        spread([wall for wall, _ in ours], "ms"),
        f"{median(wall for wall, _ in bare):.0f} ms for asyncio alone ({median(cpu for _, cpu in bare):.0f} "
        "of CPU)",
        aim="150 ms",
        each=[wall for wall, _ in ours],
    )


def _import(module: str) -> tuple[float, float]:
    """Milliseconds of wall and processor time."""
    clocks = "time.perf_counter(), time.process_time()"
    script = f"import time; w, c = {clocks}; import {module}; v, d = {clocks}; print((v - w) * 1000, (d - c) * 1000)"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout
    wall, cpu = map(float, told.split())
    return wall, cpu


@contextlib.asynccontextmanager
async def _worker(store: str) -> AsyncIterator[psutil.Process]:
    """A worker as people start it, from the command line."""
    command = [sys.executable, "-m", "effectlog", "worker", work.__name__, "--store", store]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    try:
        assert process.stderr is not None
        while b" serves " not in await process.stderr.readline():
            pass
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        await process.wait()


def measure_idle_worker(folder: Path, starts: int, idle: float) -> list[Figure]:
    """How soon an idle worker begins what another process enqueues, and what waiting for it costs."""
    return asyncio.run(_idle_worker(str(folder / "idle.db"), starts, idle))


async def _idle_worker(store: str, starts: int, idle: float) -> list[Figure]:
    async with EffectLog(store) as log, _worker(store) as worker:
        await asyncio.sleep(1.0)
        before, began = worker.cpu_times(), time.perf_counter()
        await asyncio.sleep(idle)
        after, seconds = worker.cpu_times(), time.perf_counter() - began
        used = (after.user + after.system - before.user - before.system) / seconds * 100
        latencies = [await _latency(log) for _ in range(starts)]
    cuts = quantiles(latencies, n=100)
    start = f"p50 {cuts[49]:.1f} ms, p99 {cuts[98]:.1f} ms"
    return [
        Figure("new work from another process begins, idle worker", start, aim="p99 50 ms", each=latencies),
        Figure("that worker while idle", f"{used:.2f} % of a core", aim="1 %", each=[used]),
    ]


async def _latency(log: EffectLog) -> float:
    """Milliseconds from the call of ``enqueue``, its own commit included, to the begin of the task's body."""
    await asyncio.sleep(random.uniform(0.03, 0.15))
    called = time.monotonic()
    run = await log.enqueue(work.started_at)
    return (await run.result() - called) * 1000
