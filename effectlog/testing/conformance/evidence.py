"""Guarantees about what a fenced-out attempt reports: kept, never in the way, and used once it can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from effectlog.model import AttemptOutcome, EffectState, Policy, RunState
from effectlog.store import commands as c
from effectlog.testing.conformance.expectations import equal, expect, expect_refused
from effectlog.testing.conformance.guarantee import Topic

if TYPE_CHECKING:
    from effectlog.testing.conformance.scratch import Bench

topic = Topic("evidence")

_COMPLETED, _NOT_APPLIED = c.RequestOutcome.COMPLETED, c.RequestOutcome.NOT_APPLIED
_FINAL, _UNKNOWN = c.RequestOutcome.FINAL, c.RequestOutcome.UNKNOWN


async def _overtaken(bench: Bench, **fields: Any) -> tuple[c.Fence, c.Fence]:
    """Attempt ``a`` lost its run in the middle of a request; attempt ``b`` makes another one."""
    late = await bench.running()
    await bench.start(late, **fields)
    current = await bench.find_abandoned(late)
    await bench.start(current, **fields)
    return late, current


async def _held(bench: Bench, *keys: str) -> c.Fence:
    """The run is held over these effects, and the attempt that made the requests is gone."""
    fence = await bench.running()
    for key in keys:
        await bench.start(fence, key, policy=Policy.HOLD)
    equal(await bench.crash(fence, state=RunState.FAILED), RunState.HELD, "the state over a doubt")
    return fence


@topic.guarantee("a late outcome does not overtake the owner's request, and is kept")
async def _(bench: Bench) -> None:
    late, current = await _overtaken(bench)
    stored = await bench.finish(late, result=b"late")
    equal(
        (stored.late, stored.effect.state), (True, EffectState.STARTED), "whether it was late, and the state"
    )
    stored = await bench.finish(current, result=b"current")
    effect = await bench.effect(late.run_id)
    equal((effect.state, effect.result), (EffectState.COMPLETED, b"current"), "state and result")
    equal(
        (effect.late_result, effect.late_attempt), (b"late", late.attempt), "what is kept of the late outcome"
    )


@topic.guarantee("a late outcome after a completed record is kept as evidence only")
async def _(bench: Bench) -> None:
    late, current = await _overtaken(bench)
    await bench.finish(current, result=b"current")
    stored = await bench.finish(late, result=b"late")
    equal((stored.late, stored.effect.result), (True, b"current"), "whether it was late, and the result")
    equal(stored.effect.late_result, b"late", "what is kept of the late outcome")


@topic.guarantee("a late outcome settles the effect where nobody executes it")
async def _(bench: Bench) -> None:
    late = await bench.running()
    await bench.start(late)
    current = await bench.find_abandoned(late)
    seen = (await bench.effect(late.run_id)).version
    stored = await bench.finish(late, result=b"late")
    equal((stored.late, stored.effect.result), (False, b"late"), "whether it was late, and the result")
    expect(stored.effect.resolved_by, "nothing says who settled it")
    expect_refused(await bench.do(bench.start_of(current, seen=seen)), c.Refusal.CHANGED)


@topic.guarantee("a late outcome settles the effect when the owner's own request has none")
async def _(bench: Bench) -> None:
    late, current = await _overtaken(bench)
    await bench.finish(late, result=b"late")
    stored = await bench.finish(current, _UNKNOWN)
    equal((stored.effect.state, stored.effect.result), (EffectState.COMPLETED, b"late"), "state and result")


@topic.guarantee("a late outcome settles the effect when its owner crashes as well")
async def _(bench: Bench) -> None:
    late, current = await _overtaken(bench)
    await bench.finish(late, result=b"late")
    await bench.crash(current, dead="b")
    effect = await bench.effect(late.run_id)
    equal((effect.state, effect.result), (EffectState.COMPLETED, b"late"), "state and result")


@topic.guarantee("a late outcome settles the effect when the owner is fenced out by force")
async def _(bench: Bench) -> None:
    for command in (c.CancelRun, c.RetryRun):
        late, _ = await _overtaken(bench)
        await bench.finish(late, result=b"late")
        await bench.do(command(late.run_id, force=True))
        equal(
            (await bench.effect(late.run_id)).result, b"late", f"the result after a forced {command.__name__}"
        )


@topic.guarantee("an effect known to be applied is not requested again after another request did nothing")
async def _(bench: Bench) -> None:
    late, current = await _overtaken(bench)
    await bench.finish(late, result=b"late")
    stored = await bench.finish(current, _NOT_APPLIED)
    equal((stored.effect.state, stored.effect.result), (EffectState.COMPLETED, b"late"), "state and result")


@topic.guarantee("nor after a decision that no request did anything")
async def _(bench: Bench) -> None:
    late = await bench.running()
    await bench.start(late)
    current = await bench.find_abandoned(late)
    await bench.settle(late.run_id, applied=False)
    await bench.start(current)
    await bench.finish(late, result=b"late")
    stored = await bench.finish(current, _NOT_APPLIED)
    equal((stored.effect.state, stored.effect.result), (EffectState.COMPLETED, b"late"), "state and result")


@topic.guarantee("a late success corrects a decision that nothing was applied")
async def _(bench: Bench) -> None:
    late = await bench.running()
    await bench.start(late)
    await bench.crash(late)
    await bench.settle(late.run_id, applied=False, by="ann")
    stored = await bench.finish(late, result=b"late")
    equal((stored.effect.state, stored.effect.result), (EffectState.COMPLETED, b"late"), "state and result")
    expect(
        stored.effect.resolved_by != "ann", "it still names who decided otherwise as the one who settled it"
    )
    expect("ann" in (stored.effect.evidence or ""), "the decision that was corrected is not shown")


@topic.guarantee("a late outcome lets a held run go on")
async def _(bench: Bench) -> None:
    for outcome in (_COMPLETED, _FINAL):
        fence = await _held(bench, "charge")
        await bench.finish(fence, outcome)
        equal((await bench.run(fence.run_id)).state, RunState.PENDING, f"the state after a late '{outcome}'")


@topic.guarantee("a late outcome lets a run held by its own attempt go on")
async def _(bench: Bench) -> None:
    late = await bench.running()
    await bench.start(late, policy=Policy.HOLD)
    current = await bench.find_abandoned(late)
    await bench.end(current, RunState.HELD, AttemptOutcome.HELD, holds=("charge",))
    await bench.finish(late, result=b"late")
    equal((await bench.run(late.run_id)).state, RunState.PENDING, "its state")


@topic.guarantee("a held run goes on only when nothing of it waits for a decision")
async def _(bench: Bench) -> None:
    fence = await _held(bench, "first", "second")
    await bench.finish(fence, key="first")
    equal((await bench.run(fence.run_id)).state, RunState.HELD, "its state with one effect still in doubt")
    await bench.finish(fence, key="second")
    equal((await bench.run(fence.run_id)).state, RunState.PENDING, "its state with none in doubt")


@topic.guarantee("a late outcome on an ended run is recorded and leaves the state")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence)
    await bench.do(c.CancelRun(fence.run_id, force=True))
    stored = await bench.finish(fence, result=b"late")
    equal((stored.effect.state, stored.effect.result), (EffectState.COMPLETED, b"late"), "state and result")
    equal((await bench.run(fence.run_id)).state, RunState.CANCELLED, "the run's state")


@topic.guarantee("a late failure does not end the owner's request")
async def _(bench: Bench) -> None:
    for outcome in (_NOT_APPLIED, _FINAL, _UNKNOWN):
        late, current = await _overtaken(bench)
        stored = await bench.finish(late, outcome)
        equal(stored.effect.state, EffectState.STARTED, f"the state after a late '{outcome}'")
        stored = await bench.finish(current, result=b"current")
        equal(stored.effect.result, b"current", f"the owner's result after a late '{outcome}'")


@topic.guarantee("a late failure does not stand for a later request")
async def _(bench: Bench) -> None:
    for outcome in (_NOT_APPLIED, _FINAL):
        late = await bench.running()
        await bench.start(late)
        await bench.end(late, RunState.PENDING, AttemptOutcome.RELEASED)
        await bench.settle(late.run_id, applied=False)
        current = await bench.take(late.run_id, owner="b")
        await bench.start(current)
        stored = await bench.finish(late, outcome)
        equal(stored.effect.open_requests, 1, f"the open requests after a late '{outcome}'")
        await bench.crash(current, dead="b")
        stored = await bench.finish(late, outcome)
        equal(stored.effect.state, EffectState.STARTED, f"the state after a late '{outcome}' and a crash")


@topic.guarantee("a late failure of the only request settles it")
async def _(bench: Bench) -> None:
    for outcome in (_NOT_APPLIED, _FINAL):
        late = await bench.running()
        await bench.start(late)
        await bench.release(late)
        await bench.take(late.run_id, owner="b")
        stored = await bench.finish(late, outcome)
        equal(stored.effect.state, EffectState.FAILED, f"the state after a late '{outcome}'")
        equal(stored.effect.final, outcome is _FINAL, f"whether it is final after a late '{outcome}'")


@topic.guarantee("a late failure told twice counts once")
async def _(bench: Bench) -> None:
    late, current = await _overtaken(bench)
    for _ in range(2):
        await bench.finish(late, _NOT_APPLIED)
    await bench.crash(current, dead="b")
    effect = await bench.effect(late.run_id)
    expect(effect.state is EffectState.STARTED, "the owner's open request is taken for settled")
    expect(effect.open_requests > 0, "no request counts as open")


@topic.guarantee("nobody decides against a success that is known already")
async def _(bench: Bench) -> None:
    late, current = await _overtaken(bench)
    await bench.finish(late, result=b"late")
    decision = bench.settle_of(late.run_id, applied=False, dead_owners=frozenset({bench.name("b")}))
    expect_refused(await bench.do(decision), c.Refusal.NOT_IN_DOUBT)
    await bench.crash(current, dead="b")
    equal((await bench.effect(late.run_id)).result, b"late", "the result after that")
