"""What happened to a run can be read from its spans alone: retries, replays, holds, releases, children, dead letters."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from support.telemetry_seen import Seen, attributes, events

from effectlog import (
    Applied,
    EffectLog,
    Retry,
    RunFailed,
    RunHeld,
    durable_task,
    effect,
    operation_id,
)

if TYPE_CHECKING:
    from effectlog import Run

here: dict[str, Any] = {}


@effect(key="charge:{order}")
def charge(order: str) -> str:
    return operation_id()


@effect(key="flaky:{order}")
async def flaky(order: str) -> str:
    here["tries"] = here.get("tries", 0) + 1
    if here["tries"] == 1:
        raise ConnectionError("no answer")
    return order


@effect(key="risky:{order}", in_doubt="hold")
async def risky(order: str) -> str:
    raise TimeoutError("no answer")


@effect(key="slow:{order}")
async def slow(order: str) -> None:
    here["begun"].set()
    await here["go on"].wait()


@durable_task(name="story.again", retry=Retry(delay=0.01))
async def again(order: str) -> str:
    charge(order)
    return await flaky(order)


@durable_task(name="story.careful", retry=Retry(delay=0.01))
async def careful(order: str) -> str:
    return await risky(order)


@durable_task(name="story.long", retry=Retry(delay=0.01))
async def long_one(order: str) -> None:
    await slow(order)


@durable_task(name="story.child")
def child(order: str) -> None:
    charge(order)


@durable_task(name="story.parent")
async def parent(order: str) -> None:
    await here["log"].enqueue(child.with_options(idempotency_key="c"), order)


@durable_task(name="story.mourner")
def mourner(run_id: str, error: str) -> None:
    pass


@durable_task(name="story.doomed", retry=Retry(max_attempts=1), on_dead=mourner)
def doomed() -> None:
    raise LookupError("gone")


@durable_task(name="story.listener", on="story.paid")
def listener(order: str) -> None:
    pass


@pytest.fixture(autouse=True)
def fresh() -> None:
    here.clear()
    here.update(begun=asyncio.Event())
    here["go on"] = asyncio.Event()


async def settled(run: Run[Any]) -> None:
    await asyncio.wait_for(run.result(), 20)


async def test_a_retry_shows_both_attempts_the_replay_and_the_resend(store: str, seen: Seen) -> None:
    async with EffectLog(store) as log:
        with seen.tracer.start_as_current_span("request"):
            run = await log.enqueue(again, "1")
        async with log.worker():
            await settled(run)

    assert seen.tree() == [
        "request INTERNAL",
        "  enqueue story.again PRODUCER",
        "    attempt story.again CONSUMER ERROR",
        f"      effect {__name__}.charge CLIENT",
        f"      effect {__name__}.flaky CLIENT ERROR",
        "    attempt story.again CONSUMER",
        f"      effect {__name__}.flaky CLIENT",
    ]
    first, second = seen.named("attempt story.again")
    assert seen.links(first) == [("enqueue", "enqueue story.again")]
    assert seen.links(second) == [("enqueue", "enqueue story.again"), ("attempt", "attempt story.again")]
    assert events(first) == ["exception"]
    assert events(second) == ["replayed", "resent"]
    assert attributes(first, "run.id", "task", "attempt", "fence", "outcome", "run.state") == [
        *(run.id, "story.again", 1, 1),
        *("error", "pending"),
    ]
    assert attributes(second, "attempt", "outcome", "run.state") == [2, "succeeded", "succeeded"]
    assert (first.attributes or {})["error.type"] == "ConnectionError"
    sent, resent = seen.named(f"effect {__name__}.flaky")
    assert attributes(sent, "request", "in_doubt", "outcome", "attempt") == [1, False, "unknown", 1]
    assert attributes(resent, "request", "in_doubt", "outcome", "attempt") == [2, True, "completed", 2]
    assert attributes(sent, "operation_id", "effect.key") == attributes(resent, "operation_id", "effect.key")
    assert attributes(sent, "policy", "effect", "effect.key") == ["resend", f"{__name__}.flaky", "flaky:1"]


async def test_attributes_follow_the_semantic_conventions(store: str, seen: Seen) -> None:
    async with EffectLog(store) as log, log.worker(name="w1"):
        run = await log.enqueue(again.with_options(correlation_id="order-1"), "1")
        await settled(run)

    made, attempt = seen.one("enqueue story.again"), seen.named("attempt story.again")[0]
    for span, kind, operation in ((made, "send", "enqueue"), (attempt, "process", "attempt")):
        found = span.attributes or {}
        assert (found["messaging.system"], found["messaging.operation.type"]) == ("effectlog", kind)
        assert (found["messaging.operation.name"], found["messaging.destination.name"]) == (
            operation,
            "story.again",
        )
        assert found["messaging.message.id"] == run.id
    assert (attempt.attributes or {})["messaging.client.id"] == "w1"
    assert (attempt.attributes or {})["messaging.message.conversation_id"] == "order-1"
    assert (attempt.attributes or {})["code.function.name"] == f"{__name__}.again"
    (request, *_) = seen.named(f"effect {__name__}.charge")
    assert (request.attributes or {})["code.function.name"] == f"{__name__}.charge"
    (event,) = [e for e in attempt.events if e.name == "exception"]
    assert (event.attributes or {})["exception.type"] == "ConnectionError"
    assert "no answer" in str((event.attributes or {})["exception.stacktrace"])


async def test_a_hold_is_no_error_and_its_resolution_links_to_the_run(store: str, seen: Seen) -> None:
    async with EffectLog(store) as log, log.worker():
        run = await log.enqueue(careful, "2")
        with pytest.raises(RunHeld):
            await settled(run)
        with seen.tracer.start_as_current_span("desk"):
            await log.resolve(run.id, "risky:2", Applied("done"), by="ann")
        await settled(run)

    name = f"effect {__name__}.risky"
    assert seen.tree() == [
        "enqueue story.careful PRODUCER",
        "  attempt story.careful CONSUMER",
        f"    {name} CLIENT ERROR",
        "  attempt story.careful CONSUMER",
        "desk INTERNAL",
        f"  resolve {__name__}.risky INTERNAL",
    ]
    held, after = seen.named("attempt story.careful")
    assert attributes(held, "outcome", "run.state") == ["held", "held"]
    assert events(after) == ["replayed"]
    resolution = seen.one(f"resolve {__name__}.risky")
    assert seen.links(resolution) == [
        ("enqueue", "enqueue story.careful"),
        ("attempt", "attempt story.careful"),
    ]
    assert attributes(resolution, "run.id", "effect.key") == [run.id, "risky:2"]
    assert "ann" not in str(resolution.attributes)


async def test_a_released_attempt_is_no_error(store: str, seen: Seen) -> None:
    async with EffectLog(store) as log:
        run = await log.enqueue(long_one, "3")
        worker = log.worker()
        await worker.__aenter__()
        await asyncio.wait_for(here["begun"].wait(), 20)
        await worker.release()
        here["go on"].set()
        async with log.worker():
            await settled(run)

    first, second = seen.named("attempt story.long")
    assert attributes(first, "outcome", "run.state") == ["released", "pending"]
    assert first.status.status_code.name == "UNSET"
    assert "exception" not in events(first)
    cut_off, resent = seen.named(f"effect {__name__}.slow")
    assert attributes(cut_off, "outcome") == ["unknown"]
    assert (cut_off.status.status_code.name, events(cut_off)) == ("UNSET", [])
    assert attributes(resent, "in_doubt", "outcome") == [True, "completed"]
    assert seen.links(second)[1:] == [("attempt", "attempt story.long")]


async def test_a_child_hangs_below_the_attempt_that_made_it(store: str, seen: Seen) -> None:
    async with EffectLog(store) as log, log.worker():
        here["log"] = log
        run = await log.enqueue(parent, "4")
        await settled(run)
        (record,) = await log.list_runs(task=child)
        await settled(await log.get_run(record.id))

    assert seen.tree() == [
        "enqueue story.parent PRODUCER",
        "  attempt story.parent CONSUMER",
        "    enqueue story.child PRODUCER",
        "      attempt story.child CONSUMER",
        f"        effect {__name__}.charge CLIENT",
    ]
    attempt = seen.one("attempt story.child")
    assert seen.links(attempt) == [("enqueue", "enqueue story.child"), ("parent", "attempt story.parent")]
    assert attributes(attempt, "parent.run.id") == [run.id]
    assert attributes(seen.one("enqueue story.child"), "parent.run.id", "run.created") == [run.id, True]


async def test_a_dead_letter_leads_to_the_run_that_is_told(store: str, seen: Seen) -> None:
    async with EffectLog(store) as log, log.worker():
        run = await log.enqueue(doomed)
        with pytest.raises(RunFailed):
            await settled(run)
        (told,) = await log.list_runs(task=mourner)
        await settled(await log.get_run(told.id))

    assert seen.tree() == [
        "enqueue story.doomed PRODUCER",
        "  attempt story.doomed CONSUMER ERROR",
        "    attempt story.mourner CONSUMER",
    ]
    assert seen.links(seen.one("attempt story.mourner")) == [("enqueue", "attempt story.doomed")]
    assert attributes(seen.one("attempt story.doomed"), "outcome", "run.state") == ["error", "failed"]


async def test_an_emit_and_a_run_of_ones_own_are_producers_too(store: str, seen: Seen) -> None:
    async with EffectLog(store) as log:
        (run,) = await log.emit("story.paid", "5", idempotency_key="e")
        (same,) = await log.emit("story.paid", "5", idempotency_key="e")
        await log.run(child.with_options(idempotency_key="mine"), "5")
        async with log.worker(tasks=[listener]):
            await settled(run)

    assert same.id == run.id
    first, repeated = seen.named("emit story.paid")
    assert attributes(first, "event", "run.id", "run.created") == ["story.paid", run.id, True]
    assert attributes(repeated, "run.id", "run.created") == [run.id, False]
    assert seen.parent_of(seen.one("attempt story.listener")) == "emit story.paid"
    assert seen.parent_of(seen.one("attempt story.child")) == "enqueue story.child"


async def test_many_runs_of_one_call_share_its_span(store: str, seen: Seen) -> None:
    async with EffectLog(store) as log, log.worker():
        for run in await log.enqueue_many(child, [("6",), ("7",), ("8",)]):
            await settled(run)

    made = seen.one("enqueue story.child")
    assert (made.attributes or {})["messaging.batch.message_count"] == 3
    assert {seen.parent_of(span) for span in seen.named("attempt story.child")} == {"enqueue story.child"}
