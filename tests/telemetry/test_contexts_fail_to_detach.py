"""Cancelling and throwing away coroutines never leaves "Failed to detach context" in the log (F182)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace

from effectlog import EffectLog, Retry, durable_task, effect

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from support.telemetry_seen import Seen

here: dict[str, Any] = {}
AWAITS = 12


async def await_point() -> None:
    here["point"] += 1
    if here["point"] == here["cancel at"]:
        here["reached"].set()
        await asyncio.sleep(30)
    await asyncio.sleep(0)


async def numbers() -> AsyncGenerator[int]:
    with here["tracer"].start_as_current_span("generator"):
        for n in range(3):
            await await_point()
            yield n


@effect(key="post:{n}")
async def post(n: int) -> int:
    with here["tracer"].start_as_current_span("request"):
        await await_point()
        async with contextlib.aclosing(numbers()) as found:
            async for _ in found:
                break
        await await_point()
    return n


@durable_task(name="cut.busy", retry=Retry(delay=0.01))
async def busy() -> None:
    await await_point()
    with here["tracer"].start_as_current_span("work"):
        await post(1)
        await asyncio.gather(post(2), post(3))
        await await_point()


@pytest.mark.parametrize("point", range(1, AWAITS))
@pytest.mark.parametrize("how", ["cancel", "release"])
async def test_cancelled_at_any_await(
    store: str, seen: Seen, caplog: pytest.LogCaptureFixture, point: int, how: str
) -> None:
    here.update({"tracer": seen.tracer, "point": 0, "cancel at": point, "reached": asyncio.Event()})
    async with EffectLog(store, lease=5.0) as log:
        run = await log.enqueue(busy)
        worker = log.worker()
        await worker.__aenter__()
        await asyncio.wait_for(here["reached"].wait(), 20)
        if how == "cancel":
            await run.cancel()
            await worker.drain()
        else:
            await worker.release()
    gc.collect()

    assert [r.getMessage() for r in caplog.records if r.name.startswith("opentelemetry")] == []
    attempt = seen.one("attempt cut.busy")
    assert (attempt.attributes or {})["effectlog.outcome"] == ("cancelled" if how == "cancel" else "released")
    assert attempt.status.status_code.name == "UNSET"
    assert all(span.end_time for span in seen.spans)


@effect(key="plain:{n}")
async def plain(n: int) -> None:
    here["reached"].set()
    await asyncio.sleep(30)


@durable_task(name="cut.thrower", retry=Retry(max_attempts=1))
async def thrower() -> None:
    call: Any = plain(1)
    elsewhere = asyncio.create_task(call)
    await here["reached"].wait()
    before = trace.get_current_span()
    with contextlib.suppress(BaseException):
        call.close()  # As the garbage collector does, in whatever context it happens to run.
    here["undisturbed"] = trace.get_current_span() is before
    elsewhere.cancel()
    with contextlib.suppress(asyncio.CancelledError, RuntimeError):
        await elsewhere


async def test_a_call_that_is_closed_in_another_context(
    store: str, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    here.update({"reached": asyncio.Event()})
    async with EffectLog(store) as log, log.worker():
        run = await log.enqueue(thrower)
        await asyncio.wait_for(run.result(), 20)

    assert here["undisturbed"]
    assert [r.getMessage() for r in caplog.records if r.name.startswith("opentelemetry")] == []
    request = seen.one(f"effect {__name__}.plain")
    assert (request.attributes or {})["effectlog.outcome"] == "unknown"
