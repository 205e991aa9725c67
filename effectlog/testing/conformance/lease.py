"""Guarantees about ownership: one owner at a time, and a fence that a former owner can't pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effectlog.model import AttemptOutcome, RunState
from effectlog.store import commands as c
from effectlog.testing.conformance.expectations import accepted, equal, expect, expect_refused
from effectlog.testing.conformance.guarantee import Topic
from effectlog.testing.conformance.scratch import LEASE

if TYPE_CHECKING:
    from effectlog.testing.conformance.scratch import Bench

topic = Topic("lease")


@topic.guarantee("a live lease is respected")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    equal(await bench.claim(owner="b"), [], "what a second claimer got")
    expect_refused(await bench.do(bench.expiry_of(fence, dead=None)), c.Refusal.NOT_OWNER)
    equal((await bench.run(fence.run_id)).owner, bench.name("a"), "the owner after that")


@topic.guarantee("owner and lease are stored")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    row = await bench.run(fence.run_id)
    equal(
        (row.state, row.owner, row.attempt), (RunState.RUNNING, bench.name("a"), 1), "state, owner, attempt"
    )
    expect(row.lease_expires > 0 and row.lease_clock, "no lease is stored")
    owners = await bench.store.owners()
    equal(owners.get(bench.name("a")), row.lease_clock, "the owner's clock among the owners of running runs")


@topic.guarantee("each claim has a higher fence")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    fences = [fence.attempt]
    for _ in range(3):
        await bench.release(fence)
        fence = await bench.take(fence.run_id)
        fences.append(fence.attempt)
    equal(fences, sorted(set(fences)), "the fences in their order")


async def _stale(bench: Bench) -> tuple[c.Fence, c.Fence]:
    """A fenced-out attempt of ``a`` and the attempt of ``b`` that came after it."""
    fence = await bench.running()
    return fence, await bench.find_abandoned(fence)


@topic.guarantee("a stale fence starts no effect")
async def _(bench: Bench) -> None:
    stale, _ = await _stale(bench)
    expect_refused(await bench.do(bench.start_of(stale)), c.Refusal.NOT_OWNER)
    equal((await bench.stored(stale.run_id)).effects, [], "the journal after that")


@topic.guarantee("a stale fence renews no lease")
async def _(bench: Bench) -> None:
    stale, _ = await _stale(bench)
    before = (await bench.run(stale.run_id)).lease_expires
    renewed = accepted(await bench.do(c.Renew(bench.name("a"), 10 * LEASE, (stale,))), c.Renewed)
    equal(renewed.lost, frozenset({stale.run_id}), "what the renewal calls lost")
    equal((await bench.run(stale.run_id)).lease_expires, before, "the lease of the owner after that")


@topic.guarantee("a stale fence ends nothing")
async def _(bench: Bench) -> None:
    stale, current = await _stale(bench)
    for state in (RunState.SUCCEEDED, RunState.FAILED, RunState.PENDING):
        expect_refused(await bench.do(bench.end_of(stale, state)), c.Refusal.NOT_OWNER)
    expect_refused(await bench.do(bench.expiry_of(stale)), c.Refusal.NOT_OWNER)
    row = await bench.run(stale.run_id)
    equal((row.state, row.attempt), (RunState.RUNNING, current.attempt), "state and attempt after that")


@topic.guarantee("a stale fence creates no run")
async def _(bench: Bench) -> None:
    stale, current = await _stale(bench)
    run = bench.new_run()
    expect_refused(await bench.do(c.CreateRuns((run,), run.task, "k", fence=stale)), c.Refusal.NOT_OWNER)
    equal(await bench.store.get(run.id), None, "the run that it wanted")
    accepted(await bench.do(c.CreateRuns((run,), run.task, "k", fence=current)), c.Created)


@topic.guarantee("a stale fence gives nothing back and looks nothing up")
async def _(bench: Bench) -> None:
    stale, current = await _stale(bench)
    expect_refused(await bench.do(c.MarkReleasing(stale)), c.Refusal.NOT_OWNER)
    await bench.start(current)
    await bench.finish(current, c.RequestOutcome.UNKNOWN)
    looked_up = bench.settle_of(stale.run_id, applied=True, fence=stale)
    expect_refused(await bench.do(looked_up), c.Refusal.NOT_OWNER)


@topic.guarantee("an attempt that was given back owns nothing")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.release(fence)
    expect_refused(await bench.do(bench.start_of(fence)), c.Refusal.NOT_OWNER)
    renewed = accepted(await bench.do(c.Renew(bench.name("a"), LEASE, (fence,))), c.Renewed)
    equal(renewed.lost, frozenset({fence.run_id}), "what the renewal calls lost")
    row = await bench.run(fence.run_id)
    equal((row.state, row.owner), (RunState.PENDING, None), "its state and owner")


@topic.guarantee("a lease is renewed by its owner alone, and each run answers for itself")
async def _(bench: Bench) -> None:
    mine, theirs = await bench.running(), await bench.running(owner="b")
    command = c.Renew(bench.name("a"), LEASE, (mine, theirs, c.Fence("no such run", 1)))
    renewed = accepted(await bench.do(command), c.Renewed)
    equal(renewed.lost, frozenset({theirs.run_id, "no such run"}), "what the renewal calls lost")


@topic.guarantee("a renewal says which runs were asked to cancel")
async def _(bench: Bench) -> None:
    asked, left = await bench.running(), await bench.running()
    await bench.do(c.CancelRun(asked.run_id))
    renewed = accepted(await bench.do(c.Renew(bench.name("a"), LEASE, (asked, left))), c.Renewed)
    equal(
        (renewed.cancelling, renewed.lost),
        (frozenset({asked.run_id}), frozenset()),
        "cancelling and lost runs",
    )


@topic.guarantee("the attempt of an owner known to be dead is ended at once, and counts as a crash")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    listed = await bench.store.lapsed(frozenset({bench.name("a")}))
    expect(fence.run_id in [row.id for row in listed], "the dead owner's run is not listed as lapsed")
    equal(await bench.crash(fence), RunState.PENDING, "its state")
    stored = await bench.stored(fence.run_id)
    equal(
        (stored.row.crashes, stored.attempts[0].outcome), (1, AttemptOutcome.EXPIRED), "crashes and outcome"
    )


@topic.guarantee("an owner's death ends its own attempts only")
async def _(bench: Bench) -> None:
    fence = await bench.running(owner="b")
    expect_refused(await bench.do(bench.expiry_of(fence, dead="a")), c.Refusal.NOT_OWNER)
    listed = await bench.store.lapsed(frozenset({bench.name("a")}))
    expect(fence.run_id not in [row.id for row in listed], "another owner's run is listed as lapsed")


@topic.guarantee("an attempt that was being given back when its process ended is released, not crashed")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    accepted(await bench.do(c.MarkReleasing(fence)), c.Done)
    equal(await bench.crash(fence, state=RunState.FAILED), RunState.PENDING, "its state")
    stored = await bench.stored(fence.run_id)
    equal(
        (stored.row.crashes, stored.attempts[0].outcome), (0, AttemptOutcome.RELEASED), "crashes and outcome"
    )
