"""Guarantees between claimers that act at the same time, and between processes."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from effectlog.errors import StoreError
from effectlog.model import RunState
from effectlog.store import commands as c
from effectlog.testing.conformance.expectations import accepted, equal, expect
from effectlog.testing.conformance.guarantee import Topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from effectlog.store.protocol import Store
    from effectlog.testing.conformance.scratch import Bench

topic = Topic("concurrency")

_PATIENCE = 10.0


async def _race(stores: Sequence[Store], commands: Sequence[c.Command]) -> list[c.Outcome]:
    """Apply each command on its own, all at once, over the stores in turn."""
    calls = [_applied(stores[n % len(stores)], command) for n, command in enumerate(commands)]
    return await asyncio.gather(*calls)


async def _applied(store: Store, command: c.Command) -> c.Outcome:
    """As effectlog itself does it: what a slow store can't do for a moment is tried again."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            (outcome,) = await store.apply([command])
        except StoreError as error:
            if not error.transient or time.monotonic() > until:
                raise
            await asyncio.sleep(0.01)
        else:
            return outcome


def _won(outcomes: Sequence[c.Outcome]) -> int:
    return sum(not isinstance(outcome, c.Refused) for outcome in outcomes)


async def _claimers(bench: Bench, stores: Sequence[Store]) -> None:
    ids = [await bench.create() for _ in range(20)]
    claims = [bench.claim_of("task", owner=f"owner {n}", limit=7) for n in range(8)]
    outcomes = await _race(stores, claims)
    got = [stored.row.id for outcome in outcomes for stored in accepted(outcome, c.Claimed).runs]
    equal(sorted(got), sorted(ids), "what all claimers got together")


@topic.guarantee("claimers at the same time share no run")
async def _(bench: Bench) -> None:
    await _claimers(bench, [bench.store])


@topic.guarantee("claimers in two store objects share no run", shared=True)
async def _(bench: Bench) -> None:
    await _claimers(bench, [bench.store, await bench.other()])


@topic.guarantee("a limit holds for claimers at the same time", shared=True)
async def _(bench: Bench) -> None:
    for n in range(12):
        await bench.create("limited")
        await bench.create("keyed", concurrency_key=f"key {n % 3}")
    tasks = (
        c.TaskLimit((bench.name("limited"),), concurrency=3),
        c.TaskLimit((bench.name("keyed"),), keyed=True),
    )
    stores = [bench.store, await bench.other()]
    claims = [bench.claim_of(tasks=tasks, owner=f"owner {n}") for n in range(8)]
    outcomes = [accepted(outcome, c.Claimed) for outcome in await _race(stores, claims)]
    names = [stored.row.task for outcome in outcomes for stored in outcome.runs]
    equal(names.count(bench.name("limited")), 3, "the runs of the limited task")
    equal(names.count(bench.name("keyed")), 3, "the runs of the keyed task")


@topic.guarantee("one key creates one run for callers at the same time", shared=True)
async def _(bench: Bench) -> None:
    stores = [bench.store, await bench.other()]
    calls = [c.CreateRuns((bench.new_run(),), bench.name("scope"), "k") for _ in range(20)]
    outcomes = [accepted(outcome, c.Created) for outcome in await _race(stores, calls)]
    equal(sum(outcome.created for outcome in outcomes), 1, "the number of created runs")
    equal(len({outcome.run_ids for outcome in outcomes}), 1, "the number of different answers")


@topic.guarantee("of requests started at the same time on one row, one is", shared=True)
async def _(bench: Bench) -> None:
    fence = await bench.running()
    stores = [bench.store, await bench.other()]
    outcomes = await _race(stores, [bench.start_of(fence) for _ in range(8)])
    equal(_won(outcomes), 1, "the number of accepted starts")
    equal((await bench.effect(fence.run_id)).requests, 1, "the number of requests")


@topic.guarantee("an attempt that owner and others end at the same time ends once", shared=True)
async def _(bench: Bench) -> None:
    fence = await bench.running()
    stores = [bench.store, await bench.other()]
    ends = [bench.end_of(fence), bench.expiry_of(fence), bench.end_of(fence, RunState.FAILED)] * 3
    equal(_won(await _race(stores, ends)), 1, "the number of accepted ends")
    outcomes = [attempt.outcome for attempt in (await bench.stored(fence.run_id)).attempts]
    expect(len(outcomes) == 1 and outcomes[0] is not None, f"its attempts ended as {outcomes}")


@topic.guarantee("a decision made at the same time by several is made once", shared=True)
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence)
    await bench.crash(fence)
    stores = [bench.store, await bench.other()]
    decisions = [bench.settle_of(fence.run_id, applied=n % 2 == 0, by=f"person {n}") for n in range(6)]
    equal(_won(await _race(stores, decisions)), 1, "the number of accepted decisions")


@topic.guarantee("what was applied is seen by others at once, and after everything was closed", shared=True)
async def _(bench: Bench) -> None:
    other = await bench.other()
    fence = await bench.running()
    await bench.start(fence)
    await bench.finish(fence, result=b"7")
    seen = await other.get(fence.run_id)
    equal(seen and [effect.result for effect in seen.effects], [b"7"], "what another store object sees")
    await other.close()
    reopened = await bench.other()
    equal(await reopened.get(fence.run_id), seen, "what is there after opening again")
