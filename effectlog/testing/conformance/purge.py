"""Guarantees about purge: whole runs, old enough, ended, and never a doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from effectlog.model import RunState
from effectlog.store import commands as c
from effectlog.testing.conformance.expectations import accepted, equal, expect, expect_refused
from effectlog.testing.conformance.guarantee import Topic

if TYPE_CHECKING:
    from effectlog.testing.conformance.scratch import Bench

topic = Topic("purge")

_ENDED = (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)


def _purge(*run_ids: str, older_than: float = 0.0, states: tuple[RunState, ...] = _ENDED) -> c.Purge:
    # Always by name: a store in use holds runs that are not ours to remove.
    return c.Purge(older_than, states, 10, run_ids=run_ids)


async def _ended(bench: Bench, **fields: Any) -> str:
    run_id = await bench.create(**fields)
    fence = await bench.take(run_id)
    await bench.start(fence)
    await bench.finish(fence)
    await bench.end(fence)
    return run_id


@topic.guarantee("a purge removes just the runs it names")
async def _(bench: Bench) -> None:
    gone, left = await _ended(bench), await _ended(bench)
    equal(accepted(await bench.do(_purge(gone)), c.Purged).count, 1, "the number of purged runs")
    equal(await bench.store.get(gone), None, "the purged run")
    equal(len((await bench.stored(left)).effects), 1, "the other run's journal")


@topic.guarantee("a purge that names no run removes none")
async def _(bench: Bench) -> None:
    run_id = await _ended(bench)
    equal(accepted(await bench.do(_purge()), c.Purged).count, 0, "the number of purged runs")
    await bench.stored(run_id)


@topic.guarantee("a run with an effect in doubt is never purged")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence)
    await bench.do(c.CancelRun(fence.run_id, force=True))
    equal(accepted(await bench.do(_purge(fence.run_id)), c.Purged).count, 0, "the number of purged runs")
    await bench.settle(fence.run_id, applied=True)
    equal(accepted(await bench.do(_purge(fence.run_id)), c.Purged).count, 1, "that number after the decision")


@topic.guarantee("what has not ended is never purged")
async def _(bench: Bench) -> None:
    waiting, running = await bench.create(), await bench.running()
    purged = await bench.do(_purge(waiting, running.run_id, states=tuple(RunState)))
    equal(accepted(purged, c.Purged).count, 0, "the number of purged runs")


@topic.guarantee("a purge counts from the end of a run, and takes only the states it names")
async def _(bench: Bench) -> None:
    run_id = await _ended(bench, due_at=10.0)
    young = await bench.do(_purge(run_id, older_than=3600.0))
    equal(accepted(young, c.Purged).count, 0, "the number of runs purged too early")
    other = await bench.do(_purge(run_id, states=(RunState.FAILED, RunState.CANCELLED)))
    equal(accepted(other, c.Purged).count, 0, "the number of runs purged from another state")


@topic.guarantee("a purge takes no more than its limit")
async def _(bench: Bench) -> None:
    ids = tuple([await _ended(bench) for _ in range(3)])
    purged = await bench.do(c.Purge(0.0, _ENDED, 2, run_ids=ids))
    equal(accepted(purged, c.Purged).count, 2, "the number of purged runs")


@topic.guarantee("a purged key is free, and nothing of the old run is left to replay")
async def _(bench: Bench) -> None:
    old, new = bench.new_run(), bench.new_run()
    scope = bench.name("scope")
    await bench.do(c.CreateRuns((old,), scope, "k"))
    fence = await bench.take(old.id)
    await bench.start(fence)
    await bench.finish(fence)
    await bench.end(fence)
    purged, created = await bench.batch(_purge(old.id), c.CreateRuns((new,), scope, "k"))
    equal(accepted(purged, c.Purged).count, 1, "the number of purged runs")
    outcome = accepted(created, c.Created)
    equal((outcome.created, outcome.run_ids), (True, (new.id,)), "what the key gives in the same batch")
    equal((await bench.stored(new.id)).effects, [], "the journal of the new run")


@topic.guarantee("the key of an event's runs stays until the last of them is purged")
async def _(bench: Bench) -> None:
    first, second = bench.new_run(), bench.new_run()
    scope = bench.name("event")
    await bench.do(c.CreateRuns((first, second), scope, "k"))
    await bench.end(await bench.take(first.id))
    await bench.do(_purge(first.id))
    known = accepted(await bench.do(c.CreateRuns((bench.new_run(),), scope, "k")), c.Created)
    expect(not known.created, "a second set of runs was created for the event")
    await bench.end(await bench.take(second.id))
    await bench.do(_purge(second.id))
    free = accepted(await bench.do(c.CreateRuns((bench.new_run(),), scope, "k")), c.Created)
    expect(free.created, "the key is still taken")


@topic.guarantee("nothing is done to a run after it was purged in the same batch")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence)
    await bench.finish(fence, c.RequestOutcome.NOT_APPLIED)
    await bench.end(fence, RunState.FAILED)
    outcomes = await bench.batch(
        _purge(fence.run_id),
        c.RetryRun(fence.run_id),
        bench.finish_of(fence, result=b"late"),
        bench.settle_of(fence.run_id, applied=True),
    )
    equal(accepted(outcomes[0], c.Purged).count, 1, "the number of purged runs")
    for outcome in outcomes[1:]:
        expect_refused(outcome, c.Refusal.NOT_FOUND)
