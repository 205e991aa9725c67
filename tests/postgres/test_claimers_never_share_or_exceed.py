"""Concurrent claimers must not take one run twice, nor more runs of a task than its limit allows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from support.postgres_commands import create, do, new_run

from effectlog.model import AttemptOutcome, RunState
from effectlog.store import commands as c

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from effectlog.store.postgres.store import PostgresStore

    OpenStore = Callable[..., Awaitable[PostgresStore]]


async def _claim(store: PostgresStore, owner: str, limit: int, *tasks: c.TaskLimit) -> list[c.Fence]:
    outcome = await do(store, c.Claim(owner, owner, 60.0, tasks, limit))
    return [c.Fence(stored.row.id, stored.row.attempt) for stored in outcome.runs]


async def test_no_run_is_claimed_twice(open_store: OpenStore) -> None:
    stores = [await open_store() for _ in range(4)]
    await stores[0].apply([create(new_run("a"), new_run("b")) for _ in range(100)])

    async def claim_all(store: PostgresStore, owner: str) -> list[c.Fence]:
        got: list[c.Fence] = []
        idle = 0
        while idle < 3:
            more = await _claim(store, owner, 7, c.TaskLimit(("a",)), c.TaskLimit(("b",)))
            got += more
            idle = 0 if more else idle + 1
        return got

    claimed = await asyncio.gather(*(claim_all(store, f"o{n}") for n, store in enumerate(stores)))
    everything = [fence.run_id for fences in claimed for fence in fences]
    assert len(everything) == len(set(everything)) == 200
    assert all(fence.attempt == 1 for fences in claimed for fence in fences)


async def test_a_limit_holds_among_claimers_that_race(open_store: OpenStore) -> None:
    """Two of them know the task under one name only; the limit is of the task all the same."""
    stores = [await open_store() for _ in range(4)]
    await stores[0].apply([create(new_run("new")) for _ in range(30)] + [create(new_run("old"))])
    limits = [c.TaskLimit(("new", "old"), concurrency=3), c.TaskLimit(("new",), concurrency=3)] * 2
    running: set[str] = set()
    most = ended = 0

    async def work(store: PostgresStore, owner: str, limit: c.TaskLimit) -> None:
        nonlocal most, ended
        while ended < 31:
            for fence in await _claim(store, owner, 5, limit):
                running.add(fence.run_id)
                most = max(most, len(running))
                await asyncio.sleep(0)
                running.discard(fence.run_id)
                end = c.EndAttempt(fence, AttemptOutcome.SUCCEEDED, RunState.SUCCEEDED, result=b"1")
                assert isinstance(await do(store, end), c.RunMoved)
                ended += 1

    works = [work(store, f"o{n}", limit) for n, (store, limit) in enumerate(zip(stores, limits, strict=True))]
    await asyncio.wait_for(asyncio.gather(*works), 30)
    assert 0 < most <= 3


async def test_one_run_a_concurrency_key_among_claimers_that_race(open_store: OpenStore) -> None:
    stores = [await open_store() for _ in range(4)]
    runs = [new_run("keyed", concurrency_key=f"k{n % 3}") for n in range(30)]
    await stores[0].apply([create(run) for run in runs])
    limit = c.TaskLimit(("keyed",), keyed=True)
    for _ in range(10):
        claims = (_claim(store, f"o{n}", 5, limit) for n, store in enumerate(stores))
        fences = [fence for got in await asyncio.gather(*claims) for fence in got]
        keys = [next(run.concurrency_key for run in runs if run.id == fence.run_id) for fence in fences]
        assert sorted(keys) == ["k0", "k1", "k2"]  # type: ignore[type-var]  # every run here has a key
        ends = [
            c.EndAttempt(fence, AttemptOutcome.SUCCEEDED, RunState.SUCCEEDED, result=b"1") for fence in fences
        ]
        await stores[0].apply(ends)
