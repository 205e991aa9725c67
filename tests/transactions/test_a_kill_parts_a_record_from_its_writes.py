"""SIGKILL at every point of a transaction: its writes and its record are both there afterwards, or neither is."""

from __future__ import annotations

import signal

import killed_process
import pytest
from support.forked import outcome
from support.orders import orders, ship
from support.whole_records import whole_records

from effectlog import EffectLog, EffectState

KILLED = (-signal.SIGKILL, None)


@pytest.mark.parametrize("point", ["before begin", "in function", "before commit", "after commit"])
async def test_an_effect_is_both_or_neither(store_url: str, point: str) -> None:
    assert outcome(killed_process.main, "effect", store_url, point) == KILLED
    landed = point == "after commit"
    async with EffectLog(store_url, check_store=False) as log:
        ((before,),) = [record.effects for record in await whole_records(log)]
    assert before.state is (EffectState.COMPLETED if landed else EffectState.STARTED)
    assert await orders(store_url) == (["a"] if landed else [])
    assert outcome(killed_process.main, "effect", store_url, "nowhere") == (0, "A")
    async with EffectLog(store_url, check_store=False) as log:
        (record,) = await whole_records(log)
    assert await orders(store_url) == ["a"]
    assert (record.effects[0].state, record.effects[0].in_doubt) == (EffectState.COMPLETED, False)
    assert record.effects[0].requests == (1 if landed else 2)
    assert [attempt.outcome for attempt in record.attempts] == ["expired", "succeeded"]


@pytest.mark.parametrize("point", ["before commit", "after commit"])
async def test_a_callers_run_is_there_with_its_writes_or_not_at_all(store_url: str, point: str) -> None:
    assert outcome(killed_process.main, "caller", store_url, point) == KILLED
    landed = point == "after commit"
    async with EffectLog(store_url, check_store=False) as log:
        assert len(await log.list_runs(task=ship)) == landed
        assert await orders(store_url) == ["a"] * landed
        run_again = await log.enqueue(ship.with_options(idempotency_key="k"), "a")
        assert run_again.created is not landed
