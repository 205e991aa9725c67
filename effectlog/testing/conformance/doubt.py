"""Guarantees about effects in doubt: who may settle them, and what a run does meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effectlog.model import AttemptOutcome, EffectState, Policy, RunState
from effectlog.store import commands as c
from effectlog.store.rows import RequestClock
from effectlog.testing.conformance.expectations import accepted, equal, expect, expect_refused
from effectlog.testing.conformance.guarantee import Topic

if TYPE_CHECKING:
    from effectlog.testing.conformance.scratch import Bench

topic = Topic("doubt")


async def _in_doubt(bench: Bench, policy: Policy = Policy.RESEND) -> c.Fence:
    """A live attempt with an effect in doubt that it is not executing."""
    fence = await bench.running()
    await bench.start(fence, policy=policy)
    await bench.finish(fence, c.RequestOutcome.UNKNOWN)
    return fence


async def _held(bench: Bench) -> str:
    fence = await _in_doubt(bench, Policy.HOLD)
    equal(await bench.end(fence, RunState.HELD, AttemptOutcome.HELD), RunState.HELD, "the run's state")
    return fence.run_id


@topic.guarantee("a settled effect keeps its value, who settled it and why")
async def _(bench: Bench) -> None:
    run_id = await _held(bench)
    await bench.settle(run_id, applied=True, result=b"7", by="ann", evidence="invoice 12")
    effect = await bench.effect(run_id)
    equal((effect.state, effect.result), (EffectState.COMPLETED, b"7"), "state and result")
    equal((effect.resolved_by, effect.evidence), ("ann", "invoice 12"), "who settled it, and why")


@topic.guarantee("an effect settled as not applied may be requested again, and the horizon begins anew")
async def _(bench: Bench) -> None:
    run_id = await _held(bench)
    effect = await bench.settle(run_id, applied=False, new_operation=True)
    equal((effect.state, effect.generation), (EffectState.FAILED, 1), "state and generation")
    fence = await bench.take(run_id)
    again = await bench.start(fence, generation=1, clock=RequestClock(300.0, 3.0, "boot"))
    equal((again.requests, again.open_requests), (2, 1), "requests and open ones")
    equal(
        again.first_request,
        RequestClock(300.0, 3.0, "boot"),
        "the first request that may have done something",
    )


@topic.guarantee("an effect is not settled while a live owner executes it")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence)
    for applied in (True, False):
        command = bench.settle_of(fence.run_id, applied=applied)
        refused = expect_refused(await bench.do(command), c.Refusal.BEING_EXECUTED)
        expect(refused.effect is not None, "the refusal does not show what is stored")
    await bench.finish(fence, result=b"7")
    equal((await bench.effect(fence.run_id)).result, b"7", "the result")


@topic.guarantee("an effect is settled where the one who executes it is known to be dead")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence)
    dead = frozenset({bench.name("a")})
    effect = await bench.settle(fence.run_id, applied=True, result=b"7", dead_owners=dead)
    equal(effect.result, b"7", "the result")


@topic.guarantee("what is not in doubt is not settled")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    for key, outcome in (("done", c.RequestOutcome.COMPLETED), ("no", c.RequestOutcome.FINAL)):
        await bench.start(fence, key)
        await bench.finish(fence, outcome, key=key)
        for applied in (True, False):
            command = bench.settle_of(fence.run_id, key, applied=applied)
            refused = expect_refused(await bench.do(command), c.Refusal.NOT_IN_DOUBT)
            expect(refused.effect is not None, "the refusal does not show what is stored")
    expect_refused(await bench.do(bench.settle_of(fence.run_id, "none", applied=True)), c.Refusal.NOT_FOUND)
    expect_refused(await bench.do(bench.settle_of("no such run", applied=True)), c.Refusal.NOT_FOUND)


@topic.guarantee("of two decisions the first stands, and the second is told")
async def _(bench: Bench) -> None:
    run_id = await _held(bench)
    await bench.settle(run_id, applied=True, result=b"7", by="ann")
    command = bench.settle_of(run_id, applied=False, by="bob")
    refused = expect_refused(await bench.do(command), c.Refusal.NOT_IN_DOUBT)
    equal(refused.effect and refused.effect.resolved_by, "ann", "who settled it, as the second is told")


@topic.guarantee("a look-up settles only what it has seen")
async def _(bench: Bench) -> None:
    fence = await _in_doubt(bench, Policy.LOOK_UP)
    version = (await bench.effect(fence.run_id)).version
    stale = bench.settle_of(fence.run_id, applied=False, fence=fence, seen=version - 1)
    expect_refused(await bench.do(stale), c.Refusal.CHANGED)
    effect = await bench.settle(fence.run_id, applied=True, fence=fence, seen=version, by="look-up")
    equal((effect.state, effect.resolved_by), (EffectState.COMPLETED, "look-up"), "state, and who settled it")


@topic.guarantee("a request is not started over a decision that its caller has not seen")
async def _(bench: Bench) -> None:
    for applied in (True, False):
        fence = await _in_doubt(bench)
        seen = (await bench.effect(fence.run_id)).version
        settled = await bench.settle(fence.run_id, applied=applied)
        refused = expect_refused(await bench.do(bench.start_of(fence, seen=seen)), c.Refusal.CHANGED)
        equal(refused.effect, settled, "the effect shown with the refusal")


@topic.guarantee("a run does not end over an effect that waits for a decision")
async def _(bench: Bench) -> None:
    for policy in (Policy.HOLD, Policy.LOOK_UP):
        for state in (RunState.SUCCEEDED, RunState.FAILED):
            fence = await _in_doubt(bench, policy)
            equal(
                await bench.end(fence, state),
                RunState.HELD,
                f"'{policy}' in doubt: the state instead of {state}",
            )
            stored = await bench.stored(fence.run_id)
            equal(stored.attempts[-1].outcome, AttemptOutcome.HELD, "the attempt's outcome")
            equal((stored.row.errors, stored.result), (0, None), "its errors and result")


@topic.guarantee("a run whose crashes are used up is held, not failed, over such an effect")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence, policy=Policy.HOLD)
    equal(await bench.crash(fence, state=RunState.FAILED), RunState.HELD, "its state")
    await bench.settle(fence.run_id, applied=True)
    equal((await bench.run(fence.run_id)).state, RunState.PENDING, "its state after the decision")


@topic.guarantee("an effect that may be sent again does not hold its run")
async def _(bench: Bench) -> None:
    fence = await _in_doubt(bench, Policy.RESEND)
    equal(await bench.end(fence, RunState.FAILED), RunState.FAILED, "its state")


@topic.guarantee("an attempt can hold an effect whatever its policy")
async def _(bench: Bench) -> None:
    fence = await _in_doubt(bench, Policy.RESEND)
    state = await bench.end(fence, RunState.HELD, AttemptOutcome.HELD, holds=("charge",))
    equal(state, RunState.HELD, "its state")
    equal((await bench.effect(fence.run_id)).policy, Policy.HOLD, "the effect's policy")
    await bench.settle(fence.run_id, applied=False)
    equal((await bench.run(fence.run_id)).state, RunState.PENDING, "its state after the decision")


@topic.guarantee("a held run is not claimed")
async def _(bench: Bench) -> None:
    run_id = await _held(bench)
    equal(await bench.claim(), [], "what a claim got")
    claimed = accepted(await bench.do(bench.claim_of(run_id=run_id)), c.Claimed)
    equal(claimed.runs, (), "what a claim of just this run got")


@topic.guarantee("a decision that comes while the attempt is ending is not waited for again")
async def _(bench: Bench) -> None:
    fence = await _in_doubt(bench, Policy.HOLD)
    await bench.settle(fence.run_id, applied=True)
    state = await bench.end(fence, RunState.HELD, AttemptOutcome.HELD, holds=("charge",))
    equal(state, RunState.PENDING, "its state")


@topic.guarantee("a held run goes on at once after the last decision, and not before")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    for key in ("first", "second"):
        await bench.start(fence, key, policy=Policy.HOLD)
        await bench.finish(fence, c.RequestOutcome.UNKNOWN, key=key)
    await bench.end(fence, RunState.HELD, AttemptOutcome.HELD)
    await bench.settle(fence.run_id, "first", applied=True)
    equal(await bench.claim(), [], "what a claim got after the first decision")
    await bench.settle(fence.run_id, "second", applied=False)
    equal(await bench.claim(), [fence.run_id], "what a claim got after the second decision")


@topic.guarantee("a decision on an ended run is recorded and leaves the state")
async def _(bench: Bench) -> None:
    fence = await _in_doubt(bench)
    await bench.end(fence, RunState.FAILED)
    effect = await bench.settle(fence.run_id, applied=True, result=b"7")
    equal((effect.state, effect.result), (EffectState.COMPLETED, b"7"), "the effect's state and result")
    equal((await bench.run(fence.run_id)).state, RunState.FAILED, "the run's state")
