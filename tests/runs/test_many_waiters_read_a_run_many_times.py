"""Many that wait for one run's result read it once, and each gets a result of its own, no older than its end."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from effectlog import EffectLog, Retry, RunFailed, RunNotFound, durable_task
from effectlog.store.rows import StoredSummary
from effectlog.store.sqlite.store import SqliteStore

WAITERS = 300
go = asyncio.Event()


class Counting(SqliteStore):
    reads = 0

    async def summary(self, run_id: str, *, result: bool = False) -> StoredSummary | None:
        self.reads += 1
        return await super().summary(run_id, result=result)


@pytest.fixture
async def store(tmp_path: Path) -> Counting:
    return Counting(tmp_path / "runs.db")


@pytest.fixture
async def log(store: Counting) -> AsyncIterator[EffectLog]:
    async with EffectLog(store, check_store=False) as opened, opened.worker():
        yield opened


@durable_task(retry=Retry(max_attempts=1))
async def waits(fails: bool) -> list[int]:
    await go.wait()
    if fails:
        raise ValueError("no")
    return [1]


@pytest.fixture(autouse=True)
def _not_yet() -> None:
    go.clear()


async def test_one_read_serves_all_that_waited(log: EffectLog, store: Counting) -> None:
    run = await log.enqueue(waits, False)
    waiting = [asyncio.create_task(run.result(timeout=20)) for _ in range(WAITERS)]
    await asyncio.sleep(0)
    gone = [task for task in waiting[::3] if task.cancel()]
    go.set()
    results = await asyncio.gather(*(task for task in waiting if task not in gone))
    results[0].append(2)
    assert results[1:] == [[1]] * (len(results) - 1), "one waiter's change shows in another's result"
    # Those that were told in one round share a read; a round may begin before the last waiter has come.
    assert 1 <= store.reads <= 5


async def test_a_failure_and_a_run_that_is_not_there_reach_every_waiter(log: EffectLog) -> None:
    run = await log.enqueue(waits.with_options(), True)
    await run.cancel()
    await log.purge(0)
    for error in await asyncio.gather(*(run.result(timeout=20) for _ in range(3)), return_exceptions=True):
        assert isinstance(error, RunNotFound)


async def test_a_result_that_was_asked_for_after_a_retry_is_not_the_one_before(log: EffectLog) -> None:
    run = await log.enqueue(waits, True)
    go.set()
    with pytest.raises(RunFailed):
        await run.result(timeout=20)
    go.clear()
    await run.retry()
    second = asyncio.create_task(run.result(timeout=20))
    await asyncio.sleep(0.05)
    assert not second.done()
    go.set()
    with pytest.raises(RunFailed):
        await second
