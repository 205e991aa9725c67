"""Guarantees about leases that lapse and runs that become due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effectlog.model import AttemptOutcome, RunState
from effectlog.store import commands as c
from effectlog.testing.conformance.expectations import accepted, equal, expect, expect_refused
from effectlog.testing.conformance.guarantee import Topic

if TYPE_CHECKING:
    from effectlog.testing.conformance.scratch import Bench

topic = Topic("time")

# Where the store's clock can't be moved these seconds are really waited, so they are few.
_SHORT, _PAST_SHORT = 0.1, 0.15


async def _lapsed(bench: Bench) -> c.Fence:
    """A running attempt whose lease has run out, and that nobody has noticed yet."""
    fence = await bench.running(lease=_SHORT)
    await bench.pass_time(_PAST_SHORT)
    return fence


_NOBODYS = (RunState.RUNNING, RunState.PENDING)
"""The states of a run whose lease has run out: a worker of a store in use may have ended its attempt
meanwhile."""


async def _ended(bench: Bench, fence: c.Fence) -> RunState:
    """End a lapsed attempt, unless such a worker was faster; the state that its run is in then."""
    await bench.do(bench.expiry_of(fence, dead=None))
    return (await bench.run(fence.run_id)).state


@topic.guarantee("an expired lease starts no effect")
async def _(bench: Bench) -> None:
    expect_refused(await bench.do(bench.start_of(await _lapsed(bench))), c.Refusal.NOT_OWNER)


@topic.guarantee("an expired lease is not renewed")
async def _(bench: Bench) -> None:
    fence = await _lapsed(bench)
    renewed = accepted(await bench.do(c.Renew(bench.name("a"), 60.0, (fence,))), c.Renewed)
    equal(renewed.lost, frozenset({fence.run_id}), "what the renewal calls lost")


@topic.guarantee("an expired lease ends nothing and creates nothing")
async def _(bench: Bench) -> None:
    fence = await _lapsed(bench)
    expect_refused(await bench.do(bench.end_of(fence)), c.Refusal.NOT_OWNER)
    run = bench.new_run()
    expect_refused(await bench.do(c.CreateRuns((run,), run.task, "k", fence=fence)), c.Refusal.NOT_OWNER)
    expect((await bench.run(fence.run_id)).state in _NOBODYS, "the run has ended")


@topic.guarantee("an expired lease is listed as lapsed, and anybody may end it")
async def _(bench: Bench) -> None:
    live = await bench.running()
    fence = await _lapsed(bench)
    listed = [row.id for row in await bench.store.lapsed(frozenset())]
    taken = (await bench.run(fence.run_id)).state is RunState.PENDING
    expect(taken or fence.run_id in listed, "the run is not listed as lapsed")
    expect(live.run_id not in listed, "a run with a live lease is listed as lapsed")
    equal(await _ended(bench, fence), RunState.PENDING, "its state")
    equal((await bench.stored(fence.run_id)).attempts[0].outcome, AttemptOutcome.EXPIRED, "the outcome")


@topic.guarantee("a renewed lease lasts from its renewal on")
async def _(bench: Bench) -> None:
    fence = await bench.running(lease=5 * _SHORT)
    renewed = accepted(await bench.do(c.Renew(bench.name("a"), 60.0, (fence,))), c.Renewed)
    equal(renewed.lost, frozenset(), "what the renewal calls lost")
    await bench.pass_time(5 * _PAST_SHORT)
    await bench.start(fence)


@topic.guarantee("a renewal can also shorten a lease")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.do(c.Renew(bench.name("a"), _SHORT, (fence,)))
    await bench.pass_time(_PAST_SHORT)
    expect_refused(await bench.do(bench.start_of(fence)), c.Refusal.NOT_OWNER)


@topic.guarantee("an outcome that comes after the lease is recorded while no later attempt exists")
async def _(bench: Bench) -> None:
    fence = await bench.running(lease=2.0)
    await bench.start(fence)
    await bench.do(c.Renew(bench.name("a"), _SHORT, (fence,)))
    await bench.pass_time(_PAST_SHORT)
    stored = await bench.finish(fence, result=b"7")
    equal((stored.late, stored.effect.result), (False, b"7"), "whether it was late, and the result")
    await _ended(bench, fence)
    equal((await bench.effect(fence.run_id)).result, b"7", "the result after the takeover")


@topic.guarantee("doubt may be settled once the lease of the one who executes it has expired")
async def _(bench: Bench) -> None:
    fence = await bench.running(lease=2.0)
    await bench.start(fence)
    settlement = bench.settle_of(fence.run_id, applied=False)
    expect_refused(await bench.do(settlement), c.Refusal.BEING_EXECUTED)
    await bench.do(c.Renew(bench.name("a"), _SHORT, (fence,)))
    await bench.pass_time(_PAST_SHORT)
    accepted(await bench.do(settlement), c.EffectStored)


@topic.guarantee("a delayed run becomes due when its delay is over")
async def _(bench: Bench) -> None:
    run_id = await bench.create(delay=_SHORT)
    await bench.pass_time(_PAST_SHORT)
    equal(await bench.claim(), [run_id], "what a claim got")


@topic.guarantee("a retried run waits for its delay, and for nothing longer")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.end(fence, RunState.PENDING, delay=1.0)
    equal(await bench.claim(), [], "what a claim got before")
    fence = await bench.running()
    await bench.end(fence, RunState.PENDING, delay=_SHORT)
    await bench.pass_time(_PAST_SHORT)
    equal(await bench.claim(), [fence.run_id], "what a claim got afterwards")
