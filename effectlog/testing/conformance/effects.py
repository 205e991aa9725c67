"""Guarantees about a request and its outcome, as long as its attempt owns the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effectlog.model import EffectState, ErrorInfo, Policy, RunState
from effectlog.store import commands as c
from effectlog.store.rows import RequestClock
from effectlog.testing.conformance.expectations import accepted, equal, expect, expect_refused
from effectlog.testing.conformance.guarantee import Topic

if TYPE_CHECKING:
    from effectlog.testing.conformance.scratch import Bench

topic = Topic("effects")

_DECLINED = ErrorInfo("CardDeclined", "no funds", "Traceback …")


@topic.guarantee("a started record holds what the request was made with")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    clock = RequestClock(1_700_000_000.25, 12.5, "boot-1")
    command = bench.start_of(
        fence, "k 'ü\" 1", policy=Policy.LOOK_UP, generation=2, clock=clock, destination="bank"
    )
    returned = accepted(await bench.do(command), c.EffectStored).effect
    effect = await bench.effect(fence.run_id, "k 'ü\" 1")
    equal(returned, effect, "what the store returned")
    equal((effect.state, effect.policy), (EffectState.STARTED, Policy.LOOK_UP), "state and policy")
    equal(effect.operation_id, command.operation_id, "the operation id")
    equal((effect.name, effect.fingerprints), (command.name, {"n": "1"}), "name and fingerprints")
    equal((effect.first_request, effect.destination), (clock, "bank"), "first request and destination")
    equal((effect.generation, effect.attempt, effect.executing), (2, 1, (1,)), "generation and attempts")
    equal((effect.requests, effect.open_requests), (1, 1), "requests, and those without outcome")


@topic.guarantee("an outcome is stored byte by byte, and grows the version")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    started = await bench.start(fence)
    stored = await bench.finish(fence, result=bytes(range(256)))
    effect = await bench.effect(fence.run_id)
    equal((effect.state, effect.result), (EffectState.COMPLETED, bytes(range(256))), "state and result")
    expect(effect.version > started.version, "its version did not grow")
    equal(
        (stored.effect.version, stored.late), (effect.version, False), "the version, and whether it was late"
    )
    equal((effect.executing, effect.open_requests), ((), 0), "what is still going on")
    expect(effect.finished_at is not None, "it has no end")


@topic.guarantee("a request is not started on a row that its caller has not seen")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    started = await bench.start(fence)
    await bench.finish(fence, c.RequestOutcome.UNKNOWN)
    for seen in (0, started.version, started.version + 5):
        refused = expect_refused(await bench.do(bench.start_of(fence, seen=seen)), c.Refusal.CHANGED)
        expect(refused.effect is not None, "the refusal does not show what is stored")
    equal((await bench.effect(fence.run_id)).requests, 1, "the number of requests")


@topic.guarantee("a request is not started on a row that is not there")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    expect_refused(await bench.do(bench.start_of(fence, seen=1)), c.Refusal.CHANGED)


@topic.guarantee("a completed effect is never requested again")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence)
    seen = (await bench.finish(fence, result=b"7")).effect.version
    refused = expect_refused(await bench.do(bench.start_of(fence, seen=seen)), c.Refusal.CHANGED)
    equal(refused.effect and refused.effect.result, b"7", "the result shown with the refusal")
    effect = await bench.effect(fence.run_id)
    equal((effect.requests, effect.state), (1, EffectState.COMPLETED), "requests and state")


@topic.guarantee("a completed result never changes")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence)
    await bench.finish(fence, result=b"first")
    await bench.finish(fence, result=b"second")
    await bench.finish(fence, c.RequestOutcome.FINAL, error=_DECLINED)
    await bench.finish(fence, c.RequestOutcome.NOT_APPLIED)
    expect_refused(await bench.do(bench.settle_of(fence.run_id, applied=False)), c.Refusal.NOT_IN_DOUBT)
    effect = await bench.effect(fence.run_id)
    equal((effect.state, effect.result), (EffectState.COMPLETED, b"first"), "state and result")


@topic.guarantee("an outcome told twice changes nothing")
async def _(bench: Bench) -> None:
    for number, outcome in enumerate(c.RequestOutcome):
        fence = await bench.running()
        await bench.start(fence, key=str(number))
        first = await bench.finish(fence, outcome, key=str(number))
        again = await bench.finish(fence, outcome, key=str(number))
        equal(again.late, False, f"whether a repeated '{outcome}' counts as late")
        equal(again.effect, first.effect, f"the effect after a repeated '{outcome}'")


@topic.guarantee("a result that could not be encoded completes its effect")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence)
    seen = (await bench.finish(fence, result_error="a socket at $.conn")).effect.version
    effect = await bench.effect(fence.run_id)
    equal(effect.state, EffectState.COMPLETED, "its state")
    equal(
        (effect.result, effect.result_error),
        (None, "a socket at $.conn"),
        "its result, and what is wrong with it",
    )
    expect_refused(await bench.do(bench.start_of(fence, seen=seen)), c.Refusal.CHANGED)
    expect_refused(await bench.do(bench.settle_of(fence.run_id, applied=False)), c.Refusal.NOT_IN_DOUBT)
    supplied = await bench.settle(fence.run_id, applied=True, result=b"7")
    equal(
        (supplied.result, supplied.result_error),
        (b"7", None),
        "result and problem once the value was supplied",
    )


@topic.guarantee("a request that was announced and never made is not counted")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence)
    effect = (await bench.finish(fence, c.RequestOutcome.NOT_MADE)).effect
    equal(
        (effect.requests, effect.open_requests, effect.unsettled),
        (0, 0, False),
        "its counts before any request",
    )
    await bench.start(fence, seen=effect.version)
    await bench.finish(fence, c.RequestOutcome.UNKNOWN)
    effect = await bench.effect(fence.run_id)
    await bench.start(fence, seen=effect.version)
    await bench.finish(fence, c.RequestOutcome.NOT_MADE)
    effect = await bench.effect(fence.run_id)
    equal(
        (effect.requests, effect.open_requests, effect.unsettled),
        (1, 1, True),
        "its counts beside one in doubt",
    )


@topic.guarantee("a request that did nothing may be made again, and the horizon begins anew")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence, clock=RequestClock(100.0, 1.0, "boot"))
    stored = await bench.finish(fence, c.RequestOutcome.NOT_APPLIED, error=_DECLINED)
    equal(
        (stored.effect.state, stored.effect.final),
        (EffectState.FAILED, False),
        "state, and whether it is final",
    )
    equal((stored.effect.error, stored.effect.open_requests), (_DECLINED, 0), "error and open requests")
    await bench.start(fence, clock=RequestClock(200.0, 2.0, "boot"))
    again = await bench.effect(fence.run_id)
    equal(
        again.first_request,
        RequestClock(200.0, 2.0, "boot"),
        "the first request that may have done something",
    )
    equal((again.requests, again.open_requests, again.error), (2, 1, None), "requests, open ones, and error")


@topic.guarantee("an effect with an earlier request without outcome stays in doubt, with that request's time")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence, clock=RequestClock(100.0, 1.0, "boot"))
    await bench.finish(fence, c.RequestOutcome.UNKNOWN)
    await bench.start(fence, clock=RequestClock(200.0, 2.0, "boot"))
    await bench.finish(fence, c.RequestOutcome.NOT_APPLIED, error=_DECLINED)
    effect = await bench.effect(fence.run_id)
    equal((effect.state, effect.open_requests), (EffectState.STARTED, 1), "state and open requests")
    equal(effect.first_request, RequestClock(100.0, 1.0, "boot"), "the first request without outcome")


@topic.guarantee("a definite failure asks for a new operation only where no request is open")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence, "clean")
    stored = await bench.finish(fence, c.RequestOutcome.NOT_APPLIED, key="clean", new_operation=True)
    equal(stored.effect.generation, 1, "the generation after a definite failure")
    await bench.start(fence, "doubtful")
    await bench.finish(fence, c.RequestOutcome.UNKNOWN, key="doubtful")
    await bench.start(fence, "doubtful")
    stored = await bench.finish(fence, c.RequestOutcome.NOT_APPLIED, key="doubtful", new_operation=True)
    equal(stored.effect.generation, 0, "the generation while a request is open")


@topic.guarantee("a final failure is never requested again")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence)
    seen = (await bench.finish(fence, c.RequestOutcome.FINAL, error=_DECLINED)).effect.version
    effect = await bench.effect(fence.run_id)
    equal(
        (effect.state, effect.final, effect.error),
        (EffectState.FAILED, True, _DECLINED),
        "state, final, error",
    )
    expect_refused(await bench.do(bench.start_of(fence, seen=seen)), c.Refusal.CHANGED)


@topic.guarantee("a final failure does not hide that an earlier request had no outcome")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence)
    await bench.finish(fence, c.RequestOutcome.UNKNOWN)
    await bench.start(fence)
    stored = await bench.finish(fence, c.RequestOutcome.FINAL, error=_DECLINED)
    equal(
        (stored.effect.state, stored.effect.final),
        (EffectState.FAILED, True),
        "state, and whether it is final",
    )
    expect(stored.effect.evidence, "nothing says that an earlier request had no outcome")


@topic.guarantee("an unknown outcome leaves the effect in doubt, and a value that comes after it counts")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence)
    stored = await bench.finish(fence, c.RequestOutcome.UNKNOWN, error=_DECLINED)
    equal(
        (stored.effect.state, stored.effect.open_requests),
        (EffectState.STARTED, 1),
        "state and open requests",
    )
    equal((stored.effect.executing, stored.effect.error), ((), _DECLINED), "what is going on, and the error")
    stored = await bench.finish(fence, result=b"7")
    equal((stored.effect.state, stored.effect.result), (EffectState.COMPLETED, b"7"), "state and result")


@topic.guarantee("no effect starts in a run that was asked to cancel")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence)
    await bench.do(c.CancelRun(fence.run_id))
    expect_refused(await bench.do(bench.start_of(fence, "next")), c.Refusal.CANCELLING)
    stored = await bench.finish(fence, result=b"7")
    equal(stored.effect.result, b"7", "the outcome of the request that was under way")


@topic.guarantee("one completed record and the next started record share a batch")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence, "first")
    finished, started = await bench.batch(
        bench.finish_of(fence, key="first"), bench.start_of(fence, "second")
    )
    equal(accepted(finished, c.EffectStored).effect.state, EffectState.COMPLETED, "the first effect")
    equal(accepted(started, c.EffectStored).effect.state, EffectState.STARTED, "the second effect")


@topic.guarantee("an outcome of an unknown run or effect is refused")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    expect_refused(await bench.do(bench.finish_of(fence)), c.Refusal.NOT_FOUND)
    expect_refused(await bench.do(bench.finish_of(c.Fence("no such run", 1))), c.Refusal.NOT_FOUND)


@topic.guarantee("effects of one run do not touch each other")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.batch(*(bench.start_of(fence, key) for key in ("a", "b", "c")))
    await bench.batch(
        bench.finish_of(fence, key="a", result=b"1"),
        bench.finish_of(fence, c.RequestOutcome.NOT_APPLIED, key="b"),
    )
    states = {effect.key: effect.state for effect in (await bench.stored(fence.run_id)).effects}
    wanted = {"a": EffectState.COMPLETED, "b": EffectState.FAILED, "c": EffectState.STARTED}
    equal(states, wanted, "the journal")
    equal((await bench.run(fence.run_id)).state, RunState.RUNNING, "the run's state")
