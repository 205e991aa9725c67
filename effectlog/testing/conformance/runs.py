"""Guarantees about a run from its creation to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effectlog.errors import StoreError
from effectlog.model import AttemptOutcome, ErrorInfo, Policy, RunState
from effectlog.store import commands as c
from effectlog.testing.conformance.expectations import accepted, equal, expect, expect_refused
from effectlog.testing.conformance.guarantee import Topic

if TYPE_CHECKING:
    from effectlog.testing.conformance.scratch import Bench

topic = Topic("runs")

_BROKE = ErrorInfo("ValueError", "it broke", "Traceback …")


@topic.guarantee("a created run is pending and belongs to nobody")
async def _(bench: Bench) -> None:
    row = await bench.run(await bench.create())
    equal(row.state, RunState.PENDING, "its state")
    equal((row.owner, row.attempt, row.attempt_outcome), (None, 0, None), "its owner, attempt and outcome")
    equal((row.errors, row.crashes, row.finished_at), (0, 0, None), "its counters and end")


@topic.guarantee("a run keeps what it was created with, byte by byte")
async def _(bench: Bench) -> None:
    run = bench.new_run(
        event="paid", correlation_id="order-7", parent_id="parent", depth=3, trace="00-ab-cd-01", due_at=12.5
    )
    run.args = bytes(range(256))
    await bench.do(c.CreateRuns((run,), bench.name("scope"), "key 'ü\" 1"))
    stored = await bench.stored(run.id)
    equal(stored.args, run.args, "its arguments")
    equal(
        (stored.event, stored.correlation_id, stored.parent_id), ("paid", "order-7", "parent"), "its origin"
    )
    equal(
        (stored.depth, stored.trace, stored.row.due_at), (3, "00-ab-cd-01", 12.5), "depth, trace and due time"
    )
    equal((stored.scope, stored.idempotency_key), (bench.name("scope"), "key 'ü\" 1"), "its idempotency key")


@topic.guarantee("a batch is applied whole or not at all")
async def _(bench: Bench) -> None:
    known = await bench.create()
    fresh = bench.new_run()
    twin = bench.new_run()
    twin.id = known
    try:
        await bench.batch(c.CreateRuns((fresh,), fresh.task), c.CreateRuns((twin,), twin.task))
    except StoreError:
        equal(await bench.store.get(fresh.id), None, "what is left of the batch that failed")
    else:
        expect(False, "a second run with the same id was accepted")


@topic.guarantee("outcomes come in the order of their commands, and a refused one leaves the others alone")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    stale = c.Fence(fence.run_id, fence.attempt + 1)
    run = bench.new_run()
    started, refused, created = await bench.batch(
        bench.start_of(fence), bench.start_of(stale, "other"), c.CreateRuns((run,), run.task)
    )
    accepted(started, c.EffectStored)
    expect_refused(refused, c.Refusal.NOT_OWNER)
    equal(accepted(created, c.Created).run_ids, (run.id,), "what was created")
    await bench.stored(run.id)


@topic.guarantee("a run that succeeds keeps its result")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    equal(await bench.end(fence, result=b"\x00\xff"), RunState.SUCCEEDED, "its state")
    stored = await bench.stored(fence.run_id)
    equal((stored.row.state, stored.result), (RunState.SUCCEEDED, b"\x00\xff"), "its state and result")
    equal((stored.row.owner, stored.row.finished_at is None), (None, False), "its owner, and its missing end")


@topic.guarantee("a run that fails keeps its error")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    equal(await bench.end(fence, RunState.FAILED, error=_BROKE), RunState.FAILED, "its state")
    row = await bench.run(fence.run_id)
    equal((row.state, row.error), (RunState.FAILED, _BROKE), "its state and error")
    expect(row.finished_at is not None, "it has no end")


@topic.guarantee("an ended run is not ended again")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.end(fence, result=b"1")
    expect_refused(await bench.do(bench.end_of(fence, result=b"2")), c.Refusal.NOT_OWNER)
    expect_refused(await bench.do(bench.end_of(fence, RunState.FAILED)), c.Refusal.NOT_OWNER)
    expect_refused(await bench.do(bench.expiry_of(fence)), c.Refusal.NOT_OWNER)
    stored = await bench.stored(fence.run_id)
    equal((stored.row.state, stored.result), (RunState.SUCCEEDED, b"1"), "its state and result")


@topic.guarantee("each attempt is recorded with its number, worker, outcome and error")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.end(fence, RunState.PENDING, AttemptOutcome.TIMED_OUT, error=_BROKE)
    second = await bench.take(fence.run_id, owner="b")
    attempts = (await bench.stored(fence.run_id)).attempts
    equal([attempt.number for attempt in attempts], [fence.attempt, second.attempt], "the attempt numbers")
    equal([attempt.worker for attempt in attempts], ["worker a", "worker b"], "their workers")
    equal([attempt.outcome for attempt in attempts], [AttemptOutcome.TIMED_OUT, None], "their outcomes")
    equal([attempt.error for attempt in attempts], [_BROKE, None], "their errors")
    equal([attempt.ended_at is None for attempt in attempts], [False, True], "which are still going on")


@topic.guarantee("errors and crashes are counted apart, and releases not at all")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    for outcome in (AttemptOutcome.ERROR, AttemptOutcome.TIMED_OUT, AttemptOutcome.RELEASED):
        await bench.end(fence, RunState.PENDING, outcome)
        fence = await bench.take(fence.run_id)
    await bench.crash(fence)
    row = await bench.run(fence.run_id)
    equal((row.errors, row.crashes), (2, 1), "the counts of errors and crashes")


@topic.guarantee("the run for a dead letter is created with it, and once")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    follow_up = bench.new_run("on_dead", scope=bench.name("on_dead"), idempotency_key="dead")
    await bench.end(fence, RunState.FAILED, on_dead=follow_up)
    equal((await bench.run(follow_up.id)).state, RunState.PENDING, "the state of the run for the dead letter")
    again = bench.new_run("on_dead", scope=follow_up.scope, idempotency_key="dead")
    await bench.end(await bench.running(), RunState.FAILED, on_dead=again)
    equal(await bench.store.get(again.id), None, "a second run for the same dead letter")


@topic.guarantee("no run for a dead letter is created while there is none")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence, policy=Policy.HOLD)
    unwanted = [bench.new_run("on_dead", scope=bench.name("s"), idempotency_key=str(n)) for n in range(2)]
    equal(
        await bench.end(fence, RunState.FAILED, on_dead=unwanted[0]), RunState.HELD, "the state over a doubt"
    )
    expect_refused(await bench.do(bench.end_of(fence, RunState.FAILED, on_dead=unwanted[1])))
    for run in unwanted:
        equal(await bench.store.get(run.id), None, "the run for a dead letter that never was")
