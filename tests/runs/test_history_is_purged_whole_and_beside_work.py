"""Purging: each run whole, by when it ended, in batches that leave room, never a doubt and never what goes on."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from support.worker_processes import completed
from worker_app import quick, two

from effectlog import ConfigurationError, EffectLog, NotApplied, RunHeld, RunState, durable_task, effect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.worker_processes import Field


@effect(key="held", in_doubt="hold")
async def held_effect() -> None:
    raise ConnectionError("no answer")


@durable_task(name="ends up held")
async def ends_up_held() -> None:
    await held_effect()


@durable_task(name="nothing")
async def nothing() -> None: ...


def _age(db: Path, run_id: str, *, created: float, finished: float) -> None:
    """Make a run look as old as these seconds."""
    with closing(sqlite3.connect(db)) as connection, connection:
        now = time.time()
        connection.execute(
            "UPDATE effectlog_runs SET created_at = ?, finished_at = ? WHERE id = ?",
            (now - created, now - finished, run_id),
        )


def _orphans(db: Path) -> int:
    """Rows of runs that are gone."""
    with closing(sqlite3.connect(db)) as connection:
        counts = [
            connection.execute(
                f"SELECT count(*) FROM {table} WHERE run_id NOT IN (SELECT id FROM effectlog_runs)"
            ).fetchone()[0]
            for table in ("effectlog_effects", "effectlog_attempts")
        ]
    return sum(counts)


async def test_age_counts_from_the_end_and_not_from_the_beginning(field: Field, log: EffectLog) -> None:
    async with log.worker():
        recent, old = await log.enqueue(quick, "recent"), await log.enqueue(quick, "old")
        await recent.result(10)
        await old.result(10)
    _age(field.db, recent.id, created=3 * 86400, finished=60)
    _age(field.db, old.id, created=3 * 86400, finished=2 * 86400)
    assert await log.purge(timedelta(days=1)) == 1
    assert [record.id for record in await log.list_runs()] == [recent.id]


async def test_what_waits_runs_or_is_in_doubt_is_never_purged(field: Field, log: EffectLog) -> None:
    async with log.worker():
        held = await log.enqueue(ends_up_held)
        with pytest.raises(RunHeld):
            await held.result(10)
        await held.cancel()  # Ended now, and its effect is still in doubt.
        running = await log.enqueue(two, "a", 1.0)
        await completed(running, 1)
        pending = await log.enqueue(quick.with_options(delay=60, idempotency_key="k"), "later")
        assert await log.purge(0) == 0
        assert {record.id for record in await log.list_runs()} == {held.id, running.id, pending.id}
        assert not (await log.enqueue(quick.with_options(delay=60, idempotency_key="k"), "later")).created
        await log.resolve(held.id, "held", NotApplied(), by="a test")
        assert await log.purge(0) == 1
        assert await running.result(10) == "a:2"
    with pytest.raises(ConfigurationError, match="only ended runs"):
        await log.purge(0, state="held")


async def test_a_purge_that_is_killed_leaves_only_whole_runs(field: Field, log: EffectLog) -> None:
    async with log.worker():
        runs = await log.enqueue_many(quick, [(str(n),) for n in range(300)])
        await asyncio.gather(*(run.result(60) for run in runs))
    purging = field.start("purge", batch=20)
    purging.pipe.send("go")
    while (
        len(
            await log.administration.engine.read(log.administration.engine.store.states([r.id for r in runs]))
        )
        == 300
    ):
        await asyncio.sleep(0.001)
    purging.kill()
    left = len(await log.list_runs(limit=2000))
    assert left % 20 == 0
    assert _orphans(field.db) == 0
    assert await log.purge(0) == left


_FILL = """
INSERT INTO effectlog_runs (id, task, state, due_at, created_at, args, attempt, attempt_outcome, finished_at, result)
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
SELECT printf('old-%d', n), 'old', 'succeeded', 1, 1, x'7b7d', 1, 'succeeded', 1, x'6e756c6c' FROM numbers;
INSERT INTO effectlog_attempts (run_id, number, owner, worker, started_at, ended_at, outcome)
SELECT id, 1, 'owner', 'worker', 1, 1, 'succeeded' FROM effectlog_runs;
INSERT INTO effectlog_effects (run_id, effect_key, name, operation_id, fingerprints, policy, state, version, generation,
                               requests, open_requests, executing, attempt, started_at, finished_at, result)
SELECT id, 'e', 'e', '6ba7b810-9dad-11d1-80b4-00c04fd430c8', '{}', 'resend', 'completed', 2, 0,
       1, 0, '[]', 1, 1, 1, x'6e756c6c' FROM effectlog_runs
"""


def _fill(db: Path, count: int) -> None:
    """A history of so many runs with an attempt and an effect each."""
    with closing(sqlite3.connect(db)) as connection, connection:
        for statement in _FILL.split(";"):
            connection.execute(statement, (count,) if "?" in statement else ())


async def _one_after_the_other(log: EffectLog, go_on: Callable[[int], bool]) -> list[float]:
    """Seconds from enqueue to result of one run after the other, sorted."""
    waits: list[float] = []
    while go_on(len(waits)):
        begun = time.monotonic()
        await (await log.enqueue(nothing)).result(30)
        waits.append(time.monotonic() - begun)
    return sorted(waits)


async def _slower_by(field: Field, log: EffectLog, count: int) -> tuple[float, float]:
    """What the purge of so many runs, which dies once and is begun anew, adds to a run's time: median, and p99."""
    _fill(field.db, count)
    doomed = field.start("purge", batch=500, state="succeeded")
    doomed.pipe.send("go")
    while _count(field.db) > count - count // 10:
        await asyncio.sleep(0.01)
    doomed.kill()
    told: list[int] = []
    async with EffectLog(field.db) as worker, worker.worker():
        alone = await _one_after_the_other(worker, lambda done: done < 100)
        left = _count(field.db)
        everything = (timedelta(seconds=3600), (RunState.SUCCEEDED,), told.append)
        purging = asyncio.ensure_future(log.administration.purge(*everything))
        beside = await _one_after_the_other(worker, lambda _: not purging.done())
        assert await purging == told[-1] == left
    assert told == sorted(told), "the progress goes back"
    assert len(told) > left // 500, "a batch was larger than it may be"
    assert (_count(field.db), _orphans(field.db)) == (0, 0)
    for name, waits in (("alone", alone), ("beside the purge", beside)):
        print(
            f"{name}: {len(waits)} runs, median {_at(waits, 50):.3f} s, p99 {_at(waits, 99):.3f}, "
            f"{waits[-1]:.3f}"
        )
    return _at(beside, 50) - _at(alone, 50), _at(beside, 99) - _at(alone, 99)


def _at(waits: list[float], percent: int) -> float:
    return waits[len(waits) * percent // 100]


def _count(db: Path) -> int:
    with closing(sqlite3.connect(db)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM effectlog_runs WHERE task = 'old'").fetchone()
    return int(count)


@pytest.mark.timed
async def test_claims_stay_fast_beside_a_purge(field: Field, log: EffectLog) -> None:
    assert (await _slower_by(field, log, 8_000))[0] < 0.1


@pytest.mark.timed
@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_claims_stay_fast_beside_the_purge_of_a_million_runs(field: Field, log: EffectLog) -> None:
    median, late = await _slower_by(field, log, 1_000_000)
    assert (median < 0.1, late < 0.5) == (True, True)


@pytest.mark.paced
async def test_a_worker_with_retention_purges_by_itself(field: Field) -> None:
    async with EffectLog(field.db) as log, log.worker(retention=0.3):
        run = await log.enqueue(quick, "a")
        await run.result(10)
        while await log.list_runs():
            await asyncio.sleep(0.02)
    async with EffectLog(field.db) as log:
        with pytest.raises(ConfigurationError, match="retention"):
            log.worker(retention=0)


async def test_workers_that_were_killed_are_cleared_away(field: Field, log: EffectLog) -> None:
    doomed = field.worker(name="doomed")
    store = log.administration.engine.store

    async def names() -> list[str]:
        return [row.worker for row in await log.administration.engine.read(store.workers())]

    while await names() != ["doomed"]:
        await asyncio.sleep(0.01)
    doomed.kill()
    async with log.worker(name="next"):
        while await names() != ["next"]:
            await asyncio.sleep(0.01)
        assert len(list(field.db.with_name("runs.db-owners").iterdir())) == 1
    assert await names() == []


async def test_many_calls_are_taken_a_transaction_at_a_time(field: Field, log: EffectLog) -> None:
    """``enqueue_many`` takes a generator and asks for no more of it than one transaction holds."""
    import tracemalloc

    taken, count = 0, 3000

    def calls() -> object:
        nonlocal taken
        for n in range(count):
            taken += 1
            yield (f"{n}" + "x" * 1024,)

    tracemalloc.start()
    runs = await log.enqueue_many(quick, calls())  # type: ignore[arg-type]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(runs), taken) == (count, count)
    assert peak < 3 * 2**20, f"{peak / 2**20:.1f} MiB for {count} KB of arguments"
    assert (await log.administration.engine.read(log.administration.engine.store.health()))["states"] == {
        RunState.PENDING: count
    }


@pytest.mark.long
async def test_ten_thousand_runs_in_one_call_take_seconds(log: EffectLog) -> None:
    begun = time.monotonic()
    assert len(await log.enqueue_many(quick, ((str(n),) for n in range(10_000)))) == 10_000
    took = time.monotonic() - begun
    print(f"10,000 runs in {took:.2f} s")
    assert took < 10


async def test_bulk_mistakes_are_told_before_anything_is_stored(log: EffectLog) -> None:
    with pytest.raises(ConfigurationError, match="3 calls and 2 idempotency keys"):
        await log.enqueue_many(quick, [("a",), ("b",), ("c",)], idempotency_keys=["a", "b"])
    with pytest.raises(ConfigurationError, match="one tuple of positional arguments"):
        await log.enqueue_many(quick, ["ab"])  # type: ignore[list-item]
    assert await log.list_runs() == []
