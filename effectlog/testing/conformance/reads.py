"""Guarantees about what a store shows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from effectlog.model import RunState
from effectlog.store import commands as c
from effectlog.store.protocol import Due, RunFilter
from effectlog.store.rows import UnsettledEffect
from effectlog.testing.conformance.expectations import accepted, equal, expect
from effectlog.testing.conformance.guarantee import Topic

if TYPE_CHECKING:
    from effectlog.store.rows import StoredSummary
    from effectlog.testing.conformance.scratch import Bench

topic = Topic("reads")

_HOUR = 3600.0

EVENT = "effectlog.conformance"
"""The one event whose subscription stays in a checked store: there is no command to remove it."""


@topic.guarantee("runs are listed newest first, by task and state, and from any run on")
async def _(bench: Bench) -> None:
    ids = [await bench.create("listed") for _ in range(4)]
    await bench.create("other")
    await bench.take(ids[1])

    async def found(**query: Any) -> list[str]:
        query.setdefault("task", bench.name("listed"))
        return [stored.row.id for stored in await bench.store.find(RunFilter(**query))]

    equal(await found(), ids[::-1], "the runs of the task")
    equal(await found(limit=2), [ids[3], ids[2]], "the two newest")
    equal(await found(before=ids[2]), [ids[1], ids[0]], "those before the third")
    equal(await found(state=RunState.RUNNING), [ids[1]], "the running ones")


@topic.guarantee(
    "a list counts attempts and requests, and names what is unsettled, as the whole run tells it"
)
async def _(bench: Bench) -> None:
    fence = await bench.running(task="listed")
    for key in ("charge", "mail"):
        await bench.start(fence, key)
    whole = await bench.stored(fence.run_id)

    async def listed() -> StoredSummary:
        (found,) = await bench.store.find(RunFilter(task=bench.name("listed")))
        return found

    first = await listed()
    equal((first.row, first.created_at), (whole.row, whole.created_at), "its row")
    equal((first.attempts, first.requests), (1, 2), "its attempts and requests")
    open_effects = [UnsettledEffect(effect.run_id, effect.key, effect.executing) for effect in whole.effects]
    equal(first.unsettled, open_effects, "what is unsettled")
    await bench.finish(fence)
    second = await listed()
    equal((second.requests, second.unsettled), (2, open_effects[1:]), "what is left once one has returned")


@topic.guarantee("one run is read as a list shows it, with its result where that is asked for")
async def _(bench: Bench) -> None:
    fence = await bench.running(task="looked at")
    await bench.end(fence, result=b'"done"')
    (listed,) = await bench.store.find(RunFilter(task=bench.name("looked at")))
    equal(await bench.store.summary(fence.run_id), listed, "the run without its result")
    with_result = await bench.store.summary(fence.run_id, result=True)
    equal(with_result, replace(listed, result=b'"done"'), "the run with its result")
    equal(await bench.store.summary("no such run", result=True), None, "an unknown run")


@topic.guarantee("a list goes on from a run that was purged since")
async def _(bench: Bench) -> None:
    ids = [await bench.create("listed") for _ in range(4)]
    for gone in ids[1:3]:
        await bench.do(c.CancelRun(gone))
    await bench.do(c.Purge(0.0, (RunState.CANCELLED,), 10, run_ids=(ids[1], ids[2])))

    async def after(run_id: str) -> list[str]:
        query = RunFilter(task=bench.name("listed"), before=run_id)
        return [stored.row.id for stored in await bench.store.find(query)]

    equal(await after(ids[3]), [ids[0]], "those before one that is there")
    equal(await after(ids[2]), [ids[0]], "those before one that is gone")
    equal(await after(ids[0]), [], "those before the oldest")


@topic.guarantee("states are read for known runs, and unknown ones are left out")
async def _(bench: Bench) -> None:
    waiting, running = await bench.create(), await bench.running()
    states = await bench.store.states([waiting, running.run_id, "no such run"])
    equal(states, {waiting: RunState.PENDING, running.run_id: RunState.RUNNING}, "the states")
    equal(await bench.store.get("no such run"), None, "an unknown run")


@topic.guarantee("the store tells when the next run of a task is due")
async def _(bench: Bench) -> None:
    tasks = [bench.name("a"), bench.name("b")]
    equal(await bench.store.due(tasks), Due(now=False, next_in=None), "what is due of nothing")
    await bench.create("a", delay=_HOUR)
    later = await bench.store.due(tasks)
    expect(
        not later.now and 0.9 * _HOUR < (later.next_in or 0) <= _HOUR, f"a run in an hour is told as {later}"
    )
    await bench.create("b")
    both = await bench.store.due(tasks)
    expect(
        both.now and 0.9 * _HOUR < (both.next_in or 0) <= _HOUR,
        f"one due and one in an hour are told as {both}",
    )
    equal(
        await bench.store.due([bench.name("c")]), Due(now=False, next_in=None), "what is due of another task"
    )


@topic.guarantee(
    "subscriptions are stored once, with what an emitter needs, and replaced for a task's every name"
)
async def _(bench: Bench) -> None:
    before = c.Subscription(EVENT, "effectlog.conformance.old", "payload")
    wanted = c.Subscription(EVENT, "effectlog.conformance.task", "payload", "{payload.id}", (before.task,))
    for _ in range(2):
        accepted(await bench.do(c.Subscribe((before.task,), (before,))), c.Done)
    for _ in range(2):
        accepted(await bench.do(c.Subscribe((wanted.task, before.task), (wanted,))), c.Done)
    equal(await bench.store.subscriptions(EVENT), [wanted], "the subscriptions")
    accepted(await bench.do(c.Subscribe((bench.name("another"),), ())), c.Done)
    equal(await bench.store.subscriptions(EVENT), [wanted], "the subscriptions, another task having none")
    equal(await bench.store.subscriptions(bench.name("event")), [], "those of another event")


@topic.guarantee("a worker is shown from its first beat until it leaves")
async def _(bench: Bench) -> None:
    owner = bench.name("a")
    await bench.do(c.ReportWorker(owner, "worker a", "host", 42, 10, 5.0))
    await bench.do(c.ReportWorker(owner, "worker a", "host", 42, 10, None, ("b", "a")))
    (row,) = [row for row in await bench.store.workers() if row.owner == owner]
    equal((row.worker, row.host, row.pid, row.concurrency), ("worker a", "host", 42, 10), "who it is")
    equal(row.claimed_at, 5.0, "when it last claimed, as it said before")
    equal(row.tasks, ("b", "a"), "what it can execute, as it said last")
    await bench.do(c.RemoveWorker(owner))
    expect(owner not in [row.owner for row in await bench.store.workers()], "it is still shown")


@topic.guarantee("the store tells of its health")
async def _(bench: Bench) -> None:
    await bench.create()
    health = await bench.store.health()
    states = health.get("states")
    expect(isinstance(states, dict) and states.get("pending", 0) >= 1, f"no pending run in {health}")


@topic.guarantee("whoever waits for changes is woken, or looks again by itself")
async def _(bench: Bench) -> None:
    await asyncio.wait_for(bench.store.changed(), timeout=10)
    waiter = asyncio.create_task(bench.store.changed())
    await bench.create()
    await asyncio.wait_for(waiter, timeout=10)
