"""Guarantees about cancel and retry, and their races with the run's owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from effectlog.model import AttemptOutcome, ErrorInfo, Policy, RunState
from effectlog.store import commands as c
from effectlog.testing.conformance.expectations import accepted, equal, expect_refused
from effectlog.testing.conformance.guarantee import Topic

if TYPE_CHECKING:
    from effectlog.testing.conformance.scratch import Bench

topic = Topic("cancel and retry")


async def _cancel(bench: Bench, run_id: str, **fields: Any) -> tuple[RunState, bool]:
    moved = accepted(await bench.do(c.CancelRun(run_id, **fields)), c.RunMoved)
    return moved.state, moved.changed


async def _failed(bench: Bench) -> c.Fence:
    fence = await bench.running()
    await bench.end(fence, RunState.FAILED, error=ErrorInfo("ValueError", "it broke"))
    return fence


@topic.guarantee("a waiting run is cancelled at once")
async def _(bench: Bench) -> None:
    run_id = await bench.create()
    equal(await _cancel(bench, run_id), (RunState.CANCELLED, True), "what cancel says")
    equal(await bench.claim(), [], "what a claim got")
    equal((await bench.run(run_id)).state, RunState.CANCELLED, "its state")


@topic.guarantee("a run that somebody executes is asked to cancel, and goes on until it does")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    equal(await _cancel(bench, fence.run_id), (RunState.RUNNING, True), "what cancel says")
    row = await bench.run(fence.run_id)
    equal((row.state, row.cancel_requested), (RunState.RUNNING, True), "its state, and whether it was asked")
    state = await bench.end(fence, RunState.CANCELLED, AttemptOutcome.CANCELLED)
    equal(state, RunState.CANCELLED, "its state in the end")


@topic.guarantee("a cancelled run does not go on, whatever its attempt came to, unless it succeeded")
async def _(bench: Bench) -> None:
    ends = [
        (RunState.PENDING, AttemptOutcome.ERROR, RunState.CANCELLED),
        (RunState.PENDING, AttemptOutcome.RELEASED, RunState.CANCELLED),
        (RunState.FAILED, AttemptOutcome.ERROR, RunState.CANCELLED),
        (RunState.SUCCEEDED, AttemptOutcome.SUCCEEDED, RunState.SUCCEEDED),
    ]
    for state, outcome, wanted in ends:
        fence = await bench.running()
        await _cancel(bench, fence.run_id)
        equal(await bench.end(fence, state, outcome), wanted, f"the state of a cancelled run after {outcome}")
        equal((await bench.run(fence.run_id)).cancel_requested, False, "whether a cancel is still asked for")


@topic.guarantee("a cancelled run whose owner died is not taken over")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await _cancel(bench, fence.run_id)
    equal(await bench.crash(fence), RunState.CANCELLED, "its state")


@topic.guarantee("a run whose owner is dead is cancelled at once")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    said = await _cancel(bench, fence.run_id, dead_owners=frozenset({bench.name("a")}))
    equal(said, (RunState.CANCELLED, True), "what cancel says")
    equal(
        (await bench.stored(fence.run_id)).attempts[0].outcome,
        AttemptOutcome.EXPIRED,
        "the attempt's outcome",
    )


@topic.guarantee("a forced cancel fences the owner out")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    equal(await _cancel(bench, fence.run_id, force=True), (RunState.CANCELLED, True), "what cancel says")
    expect_refused(await bench.do(bench.start_of(fence)), c.Refusal.NOT_OWNER)
    expect_refused(await bench.do(bench.end_of(fence)), c.Refusal.NOT_OWNER)
    stored = await bench.stored(fence.run_id)
    equal((stored.row.state, stored.row.owner), (RunState.CANCELLED, None), "state and owner")
    equal(stored.attempts[0].outcome, AttemptOutcome.CANCELLED, "the attempt's outcome")


@topic.guarantee("a held run can be cancelled")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence, policy=Policy.HOLD)
    await bench.crash(fence, state=RunState.FAILED)
    equal(await _cancel(bench, fence.run_id), (RunState.CANCELLED, True), "what cancel says")


@topic.guarantee("cancel leaves an ended run alone and says so")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.end(fence, result=b"7")
    equal(await _cancel(bench, fence.run_id, force=True), (RunState.SUCCEEDED, False), "what cancel says")
    equal((await bench.stored(fence.run_id)).result, b"7", "its result")


@topic.guarantee("a failed or cancelled run is retried with fresh counters")
async def _(bench: Bench) -> None:
    cancelled = await bench.create()
    await _cancel(bench, cancelled)
    for run_id in ((await _failed(bench)).run_id, cancelled):
        equal(accepted(await bench.do(c.RetryRun(run_id)), c.RunMoved).state, RunState.PENDING, "its state")
        row = await bench.run(run_id)
        equal(
            (row.errors, row.crashes, row.error, row.finished_at),
            (0, 0, None, None),
            "counters, error and end",
        )
        await bench.take(run_id)


@topic.guarantee("a retried run keeps its journal, and its fence goes on growing")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence)
    await bench.finish(fence, result=b"7")
    await bench.end(fence, RunState.FAILED)
    await bench.do(c.RetryRun(fence.run_id))
    again = await bench.take(fence.run_id)
    equal((await bench.effect(fence.run_id)).result, b"7", "the recorded result")
    equal(again.attempt, fence.attempt + 1, "the next fence")


@topic.guarantee("of two retries the second is told")
async def _(bench: Bench) -> None:
    run_id = (await _failed(bench)).run_id
    first, second = await bench.batch(c.RetryRun(run_id), c.RetryRun(run_id))
    accepted(first, c.RunMoved)
    expect_refused(second, c.Refusal.WRONG_STATE)


@topic.guarantee("what did not fail is not retried")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.end(fence)
    expect_refused(await bench.do(c.RetryRun(fence.run_id)), c.Refusal.WRONG_STATE)
    expect_refused(await bench.do(c.RetryRun(await bench.create(), force=True)), c.Refusal.WRONG_STATE)


@topic.guarantee("a live owner's run is retried only by force, and that fences the owner out")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    expect_refused(await bench.do(c.RetryRun(fence.run_id)), c.Refusal.OWNER_ALIVE)
    accepted(await bench.do(c.RetryRun(fence.run_id, force=True)), c.RunMoved)
    expect_refused(await bench.do(bench.end_of(fence)), c.Refusal.NOT_OWNER)
    equal((await bench.take(fence.run_id, owner="b")).attempt, fence.attempt + 1, "the next fence")


@topic.guarantee("a dead owner's run is retried without force")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    moved = await bench.do(c.RetryRun(fence.run_id, dead_owners=frozenset({bench.name("a")})))
    equal(accepted(moved, c.RunMoved).state, RunState.PENDING, "its state")


@topic.guarantee("cancel and retry of an unknown run are refused")
async def _(bench: Bench) -> None:
    for command in (c.CancelRun("no such run"), c.RetryRun("no such run")):
        expect_refused(await bench.do(command), c.Refusal.NOT_FOUND)
