"""Guarantees about which runs a claim takes, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effectlog.model import AttemptOutcome, RunState
from effectlog.store import commands as c
from effectlog.testing.conformance.expectations import accepted, equal, expect, expect_refused
from effectlog.testing.conformance.guarantee import Topic

if TYPE_CHECKING:
    from effectlog.testing.conformance.scratch import Bench

topic = Topic("claims")

_MOMENT = 0.01
"""Seconds by which two due times must differ to be told apart on every clock."""


async def _suspect(bench: Bench, task: str = "task") -> str:
    """A run that has killed its process as often as makes it a suspect."""
    run_id = await bench.create(task)
    for _ in range(c.SUSPECT_CRASHES):
        await bench.crash(await bench.take(run_id))
    return run_id


@topic.guarantee("runs are claimed by due time, then in the order of their creation")
async def _(bench: Bench) -> None:
    late, first, second, early = [await bench.create(due_at=due) for due in (30.0, 20.0, 20.0, 10.0)]
    equal(await bench.claim(limit=3), [early, first, second], "the first claim")
    equal(await bench.claim(limit=3), [late], "the second claim")


@topic.guarantee("due times are kept across tasks")
async def _(bench: Bench) -> None:
    wanted = [await bench.create("ab"[n % 2], due_at=float(n)) for n in range(6)]
    equal(await bench.claim("b", "a", limit=4), wanted[:4], "the claim")


@topic.guarantee("what failed goes behind what waits, also where it is retried at once")
async def _(bench: Bench) -> None:
    for outcome in (AttemptOutcome.ERROR, AttemptOutcome.TIMED_OUT, AttemptOutcome.HELD):
        fence = await bench.running()
        waiting = await bench.create()
        await bench.pass_time(_MOMENT)
        await bench.end(fence, RunState.PENDING, outcome)
        equal(await bench.claim(limit=1), [waiting], f"the claim after an attempt that ended {outcome}")
        await bench.end(c.Fence(waiting, 1))
        equal(await bench.claim(limit=1), [fence.run_id], "the claim after that")
        await bench.end(c.Fence(fence.run_id, 2))


@topic.guarantee("what was given back or lost its process goes on before what waits, until it is a suspect")
async def _(bench: Bench) -> None:
    run_id = await bench.create()
    waiting = await bench.create()
    await bench.pass_time(_MOMENT)
    await bench.release(await bench.take(run_id))
    equal(await bench.claim(limit=1), [run_id], "the claim after a release")
    await bench.crash(c.Fence(run_id, 2))
    equal(await bench.claim(limit=1), [run_id], "the claim after a crash")
    await bench.crash(c.Fence(run_id, 3))
    equal(await bench.claim(limit=1), [waiting], "the claim once it has crashed twice")


@topic.guarantee("a run is not claimed before it is due")
async def _(bench: Bench) -> None:
    await bench.create(delay=3600.0)
    equal(await bench.claim(), [], "what a claim got")


@topic.guarantee("a claim takes no more than its limit")
async def _(bench: Bench) -> None:
    for _ in range(5):
        await bench.create()
    equal(len(await bench.claim(limit=2)), 2, "the number of claimed runs")


@topic.guarantee("runs of other tasks are neither claimed nor in the way")
async def _(bench: Bench) -> None:
    for _ in range(20):
        await bench.create("unknown", due_at=1.0)
    wanted = await bench.create("known")
    equal(await bench.claim("known", limit=2), [wanted], "what a claim got")


@topic.guarantee("a claim hands out arguments and journal, and the run is its claimer's")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    await bench.start(fence)
    await bench.finish(fence, result=b"7")
    await bench.release(fence)
    (stored,) = accepted(await bench.do(bench.claim_of("task", owner="b")), c.Claimed).runs
    equal(
        (stored.args, [effect.result for effect in stored.effects]), (b"[]", [b"7"]), "arguments and journal"
    )
    equal((stored.row.owner, stored.row.state), (bench.name("b"), RunState.RUNNING), "owner and state")
    equal([attempt.number for attempt in stored.attempts], [1, 2], "its attempts")


@topic.guarantee("an attempt's trace is kept for those that come after it, and only its owner may say it")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    accepted(await bench.do(c.NoteTrace(fence, "00-ab-cd-01")), c.Done)
    await bench.release(fence)
    (stored,) = accepted(await bench.do(bench.claim_of("task", owner="b")), c.Claimed).runs
    equal(
        [attempt.trace for attempt in stored.attempts], ["00-ab-cd-01", None], "what is known of each attempt"
    )
    expect_refused(await bench.do(c.NoteTrace(fence, "00-ef-ef-01")), c.Refusal.NOT_OWNER)
    read = await bench.stored(fence.run_id)
    equal([attempt.trace for attempt in read.attempts], ["00-ab-cd-01", None], "what is read afterwards")


@topic.guarantee("a run can be created and claimed in one batch")
async def _(bench: Bench) -> None:
    run = bench.new_run()
    _, claimed = await bench.batch(c.CreateRuns((run,), run.task), bench.claim_of(run_id=run.id))
    equal([stored.row.id for stored in accepted(claimed, c.Claimed).runs], [run.id], "what was claimed")


@topic.guarantee("a run that is not due is not claimed by its id either")
async def _(bench: Bench) -> None:
    run = bench.new_run(delay=3600.0)
    _, claimed = await bench.batch(c.CreateRuns((run,), run.task), bench.claim_of(run_id=run.id))
    equal(accepted(claimed, c.Claimed).runs, (), "what was claimed")


@topic.guarantee("a run that somebody has is not claimed by its id either")
async def _(bench: Bench) -> None:
    fence = await bench.running()
    claimed = accepted(await bench.do(bench.claim_of(run_id=fence.run_id, owner="b")), c.Claimed)
    equal(claimed.runs, (), "what the second claim got")


@topic.guarantee("two claims of one batch share no run")
async def _(bench: Bench) -> None:
    ids = [await bench.create() for _ in range(3)]
    outcomes = await bench.batch(bench.claim_of("task", limit=2), bench.claim_of("task", owner="b", limit=2))
    got = [stored.row.id for outcome in outcomes for stored in accepted(outcome, c.Claimed).runs]
    equal(got, ids, "what both got")


@topic.guarantee("a task's concurrency holds over all claimers and all its names")
async def _(bench: Bench) -> None:
    for task in ("new", "old", "new", "old"):
        await bench.create(task)
    limited = (c.TaskLimit((bench.name("new"), bench.name("old")), concurrency=3),)
    equal(len(await bench.claim(tasks=limited, limit=2)), 2, "the first claim's runs")
    equal(len(await bench.claim(tasks=limited, owner="b")), 1, "the second claim's runs")
    equal(len(await bench.claim(tasks=limited, owner="c")), 0, "the third claim's runs")


@topic.guarantee("a full task does not keep others from being claimed")
async def _(bench: Bench) -> None:
    for _ in range(5):
        await bench.create("full", due_at=1.0)
    wanted = await bench.create("free")
    tasks = (c.TaskLimit((bench.name("full"),), concurrency=1), c.TaskLimit((bench.name("free"),)))
    first = await bench.claim(tasks=tasks, limit=1)
    expect(wanted not in first, "the later run came first")
    equal(await bench.claim(tasks=tasks, limit=5), [wanted], "what was claimed beside the full task")


@topic.guarantee("one run a concurrency key is executed at a time, whatever its task is called")
async def _(bench: Bench) -> None:
    first = await bench.create("new", concurrency_key="x")
    second = await bench.create("old", concurrency_key="x")
    other = await bench.create("new", concurrency_key="y")
    keyed = (c.TaskLimit((bench.name("new"), bench.name("old")), keyed=True),)
    equal(await bench.claim(tasks=keyed), [first, other], "the first claim")
    equal(await bench.claim(tasks=keyed, owner="b"), [], "a claim while both keys are busy")
    await bench.end(c.Fence(first, 1))
    equal(await bench.claim(tasks=keyed, owner="b"), [second], "a claim once the key is free")


@topic.guarantee("the limits hold for a run claimed by its id as well")
async def _(bench: Bench) -> None:
    full = (c.TaskLimit((bench.name("full"),), concurrency=1),)
    keyed = (c.TaskLimit((bench.name("keyed"),), keyed=True),)
    for tasks, name in ((full, "full"), (keyed, "keyed")):
        first = await bench.create(name, concurrency_key="x")
        second = await bench.create(name, concurrency_key="x")
        equal(await bench.claim(run_id=first, tasks=tasks), [first], "the first claim")
        equal(await bench.claim(run_id=second, tasks=tasks, owner="b"), [], "a claim beyond the limit")
        await bench.end(c.Fence(first, 1))
        equal(
            await bench.claim(run_id=second, tasks=tasks, owner="b"), [second], "a claim once there is room"
        )


@topic.guarantee("runs without a concurrency key do not wait for one another")
async def _(bench: Bench) -> None:
    ids = [await bench.create() for _ in range(3)]
    keyed = (c.TaskLimit((bench.name(),), keyed=True),)
    equal(await bench.claim(tasks=keyed), ids, "what was claimed")


@topic.guarantee("suspects are claimed one at a time, and only where they are asked for")
async def _(bench: Bench) -> None:
    suspects = [await _suspect(bench, task) for task in ("task", "task", "other")]
    harmless = await bench.create(due_at=5e9)
    await bench.do(c.CancelRun(harmless))
    harmless = await bench.create()
    equal(await bench.claim("task", "other", suspects=False), [harmless], "a claim without suspects")
    got = await bench.claim("task", "other")
    equal(
        (len(got), got[0] in suspects),
        (1, True),
        "how many a claim with suspects got, and whether one of them",
    )


@topic.guarantee("a suspect at the head of the line does not hide the runs behind it")
async def _(bench: Bench) -> None:
    for _ in range(3):
        await _suspect(bench)
    harmless = await bench.create()
    equal(await bench.claim(limit=1, suspects=False), [harmless], "a claim without suspects")
