"""Runs made inside an attempt: durable like effects, made once however often the parent is executed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from effectlog import (
    ConfigurationError,
    EffectLog,
    IdempotencyConflict,
    LeaseLost,
    Retry,
    Run,
    RunFailed,
    current_attempt,
    durable_task,
)
from effectlog.attempt.stop_reason import StopReason
from effectlog.worker.owner import attempts_at

QUICK = Retry(delay=0.0, jitter=0.0)


@durable_task(name="child")
async def child(n: int) -> int:
    return n


@durable_task(name="on child event", on="child.event")
async def on_event(n: int) -> int:
    return n


async def _run(log: EffectLog, body: Any, **options: Any) -> Run[Any]:
    """Execute a body as a task of its own to its end."""
    task = durable_task(name=f"parent {body.__qualname__}", retry=QUICK)(body)
    async with log.worker():
        run = await log.enqueue(task.with_options(**options))
        with_failure = await asyncio.gather(run.result(10), return_exceptions=True)
    assert isinstance(with_failure[0], RunFailed) or not isinstance(with_failure[0], BaseException)
    return run


async def test_a_parent_that_is_executed_again_makes_the_same_children(log: EffectLog) -> None:
    seen: list[list[str]] = []

    async def parent() -> None:
        one = await log.enqueue(child.with_options(idempotency_key="c"), 1)
        (two,) = await log.emit("child.event", 2, idempotency_key="e")
        (three,) = await log.enqueue_many(child, [(3,)], idempotency_keys=["m"])
        seen.append([one.id, two.id, three.id])
        if len(seen) == 1:
            raise RuntimeError("once more")

    run = await _run(log, parent, correlation_id="corr")
    assert len(seen) == 2
    assert seen[0] == seen[1]
    for child_id in seen[0]:
        record = await (await log.get_run(child_id)).record()
        assert (record.parent_id, record.correlation_id) == (run.id, "corr")
    assert len(await log.list_runs()) == 4


async def test_a_child_without_a_key_is_refused_with_the_reason(log: EffectLog) -> None:
    async def parent() -> list[str]:
        told = []
        for call in (log.enqueue(child, 1), log.emit("child.event", 1), log.enqueue_many(child, [(1,)])):
            with pytest.raises(ConfigurationError, match="needs an idempotency key") as caught:
                await call
            told.append(str(caught.value))
        return told

    run = await _run(log, parent)
    assert len(await run.result(10)) == 3
    assert len(await log.list_runs()) == 1


async def test_a_childs_key_has_its_global_scope(log: EffectLog) -> None:
    outside = await log.enqueue(child.with_options(idempotency_key="c"), 1)

    async def parent() -> str:
        with pytest.raises(IdempotencyConflict):
            await log.enqueue(child.with_options(idempotency_key="c"), 2)
        return (await log.enqueue(child.with_options(idempotency_key="c"), 1)).id

    run = await _run(log, parent)
    assert await run.result(10) == outside.id


async def test_a_fenced_out_attempt_makes_no_child(log: EffectLog) -> None:
    waiting, go = asyncio.Event(), asyncio.Event()
    signals: list[BaseException] = []

    @durable_task(name="fenced parent")
    async def parent() -> None:
        if current_attempt().number > 1:
            return
        waiting.set()
        await asyncio.shield(go.wait())
        try:
            await log.enqueue(child.with_options(idempotency_key="late"), 1)
        except LeaseLost as lost:
            signals.append(lost)
            raise

    async with EffectLog(log.administration.engine.store.name) as other, log.worker():
        run = await other.enqueue(parent)
        await waiting.wait()
        # By way of the store alone, so that the attempt does not know of it.
        (attempt,) = attempts_at(run.id)
        attempt.interrupt = lambda _: None
        ended, attempt.end = attempt.end, lambda *_: None  # type: ignore[method-assign]
        await other.administration.retry(run.id, force=True)
        attempt.end = ended  # type: ignore[method-assign]
        go.set()
        await run.result(10)
    assert len(signals) == 1
    assert attempt.stop_reason is StopReason.LOST
    assert [record.task for record in await log.list_runs()] == ["fenced parent"]


async def test_waiting_for_another_run_inside_an_attempt_is_refused(log: EffectLog) -> None:
    async def parent() -> list[str]:
        made = await log.enqueue(child.with_options(idempotency_key="c"), 1)
        told = []
        for call in (made.result(), log.run(child, 1)):
            with pytest.raises(ConfigurationError, match="inside an attempt") as caught:
                await call
            told.append(str(caught.value))
        return told

    run = await _run(log, parent)
    assert len(await run.result(10)) == 2


async def test_a_chain_that_never_ends_is_stopped(log: EffectLog) -> None:
    depths: list[int] = []

    @durable_task(name="chain", retry=Retry(max_attempts=1))
    async def chain(depth: int) -> None:
        depths.append(depth)
        await log.enqueue(chain.with_options(idempotency_key=f"depth {depth + 1}"), depth + 1)

    async with log.worker():
        await log.enqueue(chain, 0)
        while not (failed := await log.list_runs(state="failed")):
            await asyncio.sleep(0.01)
    assert depths == list(range(101))
    assert failed[0].error is not None
    assert "chain of 100 runs" in failed[0].error.message


async def test_five_hundred_waiters_on_one_run_are_all_told(log: EffectLog) -> None:
    run = await log.enqueue(child, 7)
    waiters = [asyncio.ensure_future(run.result(10)) for _ in range(500)]
    await asyncio.sleep(0)
    async with log.worker(concurrency=2):
        assert await asyncio.gather(*waiters) == [7] * 500
