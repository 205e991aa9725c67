"""A store that does not answer (a partition): who waits for it is let go when the lease ends, and nothing starts."""

import asyncio
import threading
from typing import Any

import pytest
from support.failing_store import FailingStore

from effectlog import EffectLog, Retry, current_attempt, durable_task, effect

calls: list[str] = []
let_go = threading.Event()
stores: list[FailingStore] = []


@effect(key="{name}")
def act(name: str) -> str:
    calls.append(name)
    return name


@effect(key="{name}")
async def aact(name: str) -> str:
    calls.append(name)
    return name


@durable_task(retry=Retry(delay=0.0))
def task() -> str:
    if current_attempt().number == 1:
        stores[-1].gate.clear()
    try:
        return act("a")
    finally:
        let_go.set()


@durable_task(retry=Retry(delay=0.0))
async def atask() -> str:
    if current_attempt().number == 1:
        stores[-1].gate.clear()
    try:
        return await aact("a")
    finally:
        let_go.set()


@pytest.mark.parametrize("form", [task, atask], ids=["sync", "async"])
async def test_an_effect_call_is_let_go_when_its_lease_ends(store: FailingStore, form: Any) -> None:
    calls.clear()
    let_go.clear()
    stores.append(store)
    async with EffectLog(stores[-1], lease=0.5, check_store=False) as log:
        run = await log.enqueue(form)
        async with log.worker():
            assert await asyncio.to_thread(let_go.wait, 10), "the call outlived its lease"
            assert calls == []
            assert not stores[-1].gate.is_set()
            await log.administration.engine.read(_open(stores[-1].gate))
            assert await run.result(timeout=20) == "a"
        record = await run.record()
    assert calls == ["a"]
    assert len(record.attempts) == 2


async def _open(gate: asyncio.Event) -> None:
    gate.set()
