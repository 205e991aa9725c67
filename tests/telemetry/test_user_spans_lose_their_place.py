"""Users' own spans nest where they were opened: in tasks and effects, sync and async, threads, gather (F181)."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from opentelemetry import trace

from effectlog import EffectLog, current_attempt, durable_task, effect

if TYPE_CHECKING:
    from support.telemetry_seen import Seen

here: dict[str, Any] = {}


def opened(name: str) -> Any:
    return here["tracer"].start_as_current_span(name)


@effect(key="sync:{n}")
def sync_effect(n: int) -> int:
    with opened(f"inside sync {n}"):
        return n


@effect(key="async:{n}")
async def async_effect(n: int) -> int:
    with opened(f"inside async {n}"):
        await asyncio.sleep(0)
        return await asyncio.to_thread(in_thread, n)


def in_thread(n: int) -> int:
    with opened(f"thread of {n}"):
        return n


async def branch(n: int) -> int:
    with opened(f"branch {n}"):
        await asyncio.sleep(0)
        return await async_effect(n)


@durable_task(name="nest.gathering")
async def gathering() -> None:
    with opened("around"):
        sync_effect(1)
        await asyncio.gather(branch(2), branch(3))
    here["after"] = trace.get_current_span()
    await asyncio.to_thread(sync_effect, 4)


@durable_task(name="nest.threaded")
def threaded() -> None:
    with opened("around"):
        sync_effect(1)
        bound = current_attempt().bind(sync_effect)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(bound, 2).result()
    here["thread"] = threading.current_thread().name


@effect(key="leak:{n}")
def leaking_effect(n: int) -> int:
    """User code that attaches a context and never detaches it."""
    from opentelemetry import context

    context.attach(trace.set_span_in_context(here["tracer"].start_span("left open")))
    return n


@durable_task(name="nest.leaky")
def leaky() -> None:
    leaking_effect(1)
    with opened("afterwards"):
        pass


async def finished(log: EffectLog, task: Any) -> None:
    run = await log.enqueue(task)
    async with log.worker():
        await asyncio.wait_for(run.result(), 20)


async def test_spans_nest_through_gather_and_threads(store: str, seen: Seen) -> None:
    here.update(tracer=seen.tracer)
    async with EffectLog(store) as log:
        await finished(log, gathering)

    parents = {span.name: seen.parent_of(span) for span in seen.spans}
    effects = {
        (span.attributes or {})["effectlog.effect.key"]: seen.parent_of(span)
        for span in seen.spans
        if span.name.startswith("effect ")
    }
    assert effects == {
        "sync:1": "around",
        "async:2": "branch 2",
        "async:3": "branch 3",
        "sync:4": "attempt nest.gathering",
    }
    assert parents["around"] == "attempt nest.gathering"
    assert parents["branch 2"] == parents["branch 3"] == "around"
    assert parents["inside sync 1"] == f"effect {__name__}.sync_effect"
    assert parents["thread of 2"] == "inside async 2"
    assert here["after"].name == "attempt nest.gathering"


async def test_spans_nest_in_a_sync_task_and_a_bound_pool(store: str, seen: Seen) -> None:
    here.update(tracer=seen.tracer)
    async with EffectLog(store) as log:
        await finished(log, threaded)

    assert here["thread"].startswith("effectlog-")
    assert [seen.parent_of(span) for span in seen.named(f"effect {__name__}.sync_effect")] == ["around"] * 2
    assert seen.parent_of(seen.one("inside sync 2")) == f"effect {__name__}.sync_effect"


async def test_a_context_that_an_effect_leaves_behind_ends_with_it(store: str, seen: Seen) -> None:
    here.update(tracer=seen.tracer)
    async with EffectLog(store) as log:
        await finished(log, leaky)

    assert seen.parent_of(seen.one("afterwards")) == "attempt nest.leaky"


async def test_a_worker_started_inside_a_span_does_not_adopt_the_runs(store: str, seen: Seen) -> None:
    here.update(tracer=seen.tracer)
    async with EffectLog(store) as log:
        run = await log.enqueue(threaded)
        with seen.tracer.start_as_current_span("main"):
            async with log.worker():
                await asyncio.wait_for(run.result(), 20)

    assert seen.parent_of(seen.one("attempt nest.threaded")) == "enqueue nest.threaded"
    assert seen.one("main").context.trace_id != seen.one("attempt nest.threaded").context.trace_id
