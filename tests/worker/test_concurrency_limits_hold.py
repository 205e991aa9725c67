"""Per-task limits and one-at-a-time keys hold over all workers, and keep nobody else waiting."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from worker_app import limited, quick

from effectlog import EffectLog, durable_task

if TYPE_CHECKING:
    from support.worker_processes import Field


class Gauge:
    """How many are inside at a time, and in which order they came."""

    def __init__(self) -> None:
        self.inside: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.order: list[str] = []

    async def stay(self, group: str, who: str, seconds: float = 0.02) -> None:
        self.order.append(who)
        self.inside[group] += 1
        self.most[group] = max(self.most[group], self.inside[group])
        await asyncio.sleep(seconds)
        self.inside[group] -= 1


gauge = Gauge()


@durable_task(name="three at a time", concurrency=3)
async def three(who: str) -> None:
    await gauge.stay("three", who)


@durable_task(name="one for each key", concurrency_key="{customer}")
async def keyed(customer: str, who: str) -> None:
    await gauge.stay(customer, who)


@durable_task(name="single", concurrency=1)
async def single(who: str, seconds: float = 0.0) -> None:
    await gauge.stay("single", who, seconds)


@durable_task(name="free")
async def free(who: str) -> str:
    return who


async def test_a_limit_holds_over_two_workers_and_inline_runs(field: Field, log: EffectLog) -> None:
    async with EffectLog(field.db) as other, log.worker(), other.worker():
        runs = await log.enqueue_many(three, [(str(n),) for n in range(30)])
        await asyncio.gather(
            *(log.run(three, f"inline {n}") for n in range(5)), *(run.result(20) for run in runs)
        )
    assert gauge.most["three"] == 3


async def test_one_at_a_time_goes_by_due_time_and_then_insertion(field: Field, log: EffectLog) -> None:
    gauge.order.clear()
    names = [f"{n}" for n in range(12)]
    runs = [await log.enqueue(single, name) for name in names]
    async with EffectLog(field.db) as other, log.worker(), other.worker():
        await asyncio.gather(*(run.result(20) for run in runs))
    assert gauge.order == names
    assert gauge.most["single"] == 1


@pytest.mark.timed
async def test_one_run_a_key_and_keys_side_by_side(field: Field, log: EffectLog) -> None:
    calls = [(f"customer {n % 5}", str(n)) for n in range(40)]
    runs = await log.enqueue_many(keyed, calls)
    async with EffectLog(field.db) as other, log.worker(), other.worker():
        begun = time.monotonic()
        inline = log.run(keyed, "customer 0", "inline")
        await asyncio.gather(inline, *(run.result(20) for run in runs))
    assert [gauge.most[f"customer {n}"] for n in range(5)] == [1] * 5
    assert time.monotonic() - begun < 40 * 0.02 + 5


async def test_the_place_of_a_killed_worker_comes_free_at_once(field: Field, log: EffectLog) -> None:
    for _ in range(2):
        field.worker()
    await log.enqueue(limited, "first", 1.5)
    (first,) = field.wait_for(lambda all_: len(all_) == 1)
    second = await log.enqueue(limited, "second", 0.0)
    field.process(first.pid).kill()
    await second.result(10)
    # The first is due earlier, so it goes on before the second one begins.
    assert [what for what in field.whats() if what.startswith("begin")] == ["begin first"] * 2 + [
        "begin second"
    ]


@pytest.mark.timed
async def test_thousands_of_runs_that_nobody_here_knows_hide_nothing(log: EffectLog) -> None:
    unknown = durable_task(name="known elsewhere")(_elsewhere)
    await log.enqueue_many(unknown, [()] * 4000)
    runs = await log.enqueue_many(free, [(str(n),) for n in range(10)])
    async with log.worker(tasks=[free]):
        begun = time.monotonic()
        assert await asyncio.gather(*(run.result(10) for run in runs)) == [str(n) for n in range(10)]
        assert time.monotonic() - begun < 2.0


async def _elsewhere() -> None: ...


async def test_a_worker_never_has_more_than_its_own_limit(log: EffectLog) -> None:
    most = 0
    inside = 0

    @durable_task(name="counted")
    async def counted() -> None:
        nonlocal most, inside
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.01)
        inside -= 1

    async with log.worker(concurrency=7):
        runs = await log.enqueue_many(counted, [()] * 100)
        await asyncio.gather(*(run.result(20) for run in runs))
    assert most == 7


async def test_a_full_worker_leaves_work_to_others(field: Field, log: EffectLog) -> None:
    others_done = asyncio.Event()

    @durable_task(name="outlasts the others")
    async def outlasts() -> None:
        await others_done.wait()

    async with EffectLog(field.db) as other, log.worker(concurrency=1, name="one"), other.worker(name="two"):
        long = await log.enqueue(outlasts)
        runs = [await log.enqueue(quick, str(n)) for n in range(20)]
        await asyncio.gather(*(run.result(20) for run in runs))
        others_done.set()
        await long.result(20)
