"""Figures of one process: runs side by side, a long run, its replay, and the decorator outside an attempt."""

from __future__ import annotations

import asyncio
import time
import timeit
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.throughput import floor
from benchmarks.throughput.figures import Figure, Pair, Rate, spread
from benchmarks.throughput.work import few, many, times, trivial_sync
from effectlog import EffectLog

if TYPE_CHECKING:
    from pathlib import Path


def _store(folder: Path) -> str:
    for leftover in folder.glob("effectlog.db*"):
        leftover.unlink()
    return str(folder / "effectlog.db")


async def side_by_side(folder: Path, runs: int, effects: int, concurrency: int) -> Rate:
    """From the worker's start to the last run's end; the runs were enqueued before."""
    async with EffectLog(_store(folder)) as log:
        handles = await log.enqueue_many(few, [(effects,)] * runs)
        began, cpu, commits = time.perf_counter(), time.process_time(), log._engine.commits  # noqa: SLF001 - counted there
        async with log.worker(concurrency=concurrency):
            await handles[-1].result()
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        commits = log._engine.commits - commits  # noqa: SLF001 - as above
        assert len(await log.list_runs(state="succeeded", limit=runs + 1)) == runs
    return Rate(runs * effects, seconds, cpu, commits)


async def in_sequence(folder: Path, effects: int) -> Rate:
    """The effects of one run, one after the other."""
    async with EffectLog(_store(folder)) as log:
        before = log._engine.commits  # noqa: SLF001 - counted there
        await log.run(many, effects, twice=False)
        commits = log._engine.commits - before  # noqa: SLF001 - as above
    wall, cpu, wall_end, cpu_end = times[1]
    return Rate(effects, wall_end - wall, cpu_end - cpu, commits)


async def replay(folder: Path, effects: int) -> Rate:
    """The same effects in a second attempt, answered from the journal."""
    async with EffectLog(_store(folder)) as log:
        await log.run(many, effects, twice=True)
    wall, cpu, wall_end, cpu_end = times[2]
    return Rate(effects, wall_end - wall, cpu_end - cpu)


def measure_side_by_side(folder: Path, repetitions: int, runs: int) -> Figure:
    pair = Pair()
    for _ in range(repetitions):
        pair.floor.append(asyncio.run(floor.group_commit(folder, runs, 5, 100)))
        pair.ours.append(asyncio.run(side_by_side(folder, runs, 5, 100)))
    name = f"{runs:,} runs of 5 effects, 100 at a time"
    return pair.figure(name, "effects/s", "5,000 effects/s; a third of the group-commit loop")


def measure_sequence(folder: Path, repetitions: int, effects: int) -> Figure:
    pair = Pair()
    for _ in range(repetitions):
        pair.floor.append(asyncio.run(floor.sequence(folder, effects)))
        pair.ours.append(asyncio.run(in_sequence(folder, effects)))
    commits = median(rate.commits or 0 for rate in pair.ours) / effects
    name = f"{effects:,} effects in sequence, {commits:.3f} durable commits each"
    return pair.figure(name, "effects/s", "70 % of one record a commit")


def measure_replay(folder: Path, repetitions: int, effects: int) -> Figure:
    rates = [asyncio.run(replay(folder, effects)) for _ in range(repetitions)]
    each = [rate.seconds / rate.count * 1e6 for rate in rates]
    cpu = f"{median(rate.cpu_us for rate in rates):.1f} / -"
    return Figure(
        f"replay of {effects:,} recorded effects",
        spread(each, "µs an effect", 1),
        cpu_us=cpu,
        aim="30 µs",
        each=each,
    )


def _undecorated(number: int) -> int:
    return number


def measure_outside(repetitions: int) -> Figure:
    count = 100_000
    ours = [timeit.timeit(lambda: trivial_sync(1), number=count) / count * 1e6 for _ in range(repetitions)]
    bare = [timeit.timeit(lambda: _undecorated(1), number=count) / count * 1e6 for _ in range(repetitions)]
    name = "a call of an effect outside any attempt"
    return Figure(name, spread(ours, "µs", 2), f"{median(bare):.2f} µs undecorated", aim="2 µs", each=ours)
