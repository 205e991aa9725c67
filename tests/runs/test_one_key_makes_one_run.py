"""However many callers use one idempotency key at a time, there is one run, and every one of them gets it."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from support.worker_processes import completed
from worker_app import quick, slow, two

from effectlog import EffectLog, IdempotencyConflict, RunState, durable_task

if TYPE_CHECKING:
    from support.worker_processes import Field


async def test_fifty_callers_in_one_process_get_one_run(field: Field, log: EffectLog) -> None:
    task = quick.with_options(idempotency_key="k")
    async with EffectLog(field.db) as other:
        runs = await asyncio.gather(
            *((log if n % 2 else other).enqueue(task, "a") for n in range(50)),
        )
    assert len(set(runs)) == 1
    assert [run.created for run in runs].count(True) == 1
    async with log.worker():
        assert await (await log.get_run(runs[0].id)).result(10) == "a"
    assert field.whats() == ["a"]


async def test_fifty_callers_in_five_processes_get_one_run_and_no_error(field: Field, log: EffectLog) -> None:
    callers = [field.start("enqueue", task="quick", key="k", args=["a"], times=10) for _ in range(5)]
    for caller in callers:
        caller.pipe.send("go")
    handles = [handle for caller in callers for handle in caller.pipe.recv()]
    assert len(handles) == 50
    assert len({run_id for run_id, _ in handles}) == 1, handles
    assert [created for _, created in handles].count(True) == 1
    async with log.worker():
        assert await (await log.get_run(handles[0][0])).result(10) == "a"
    assert field.whats() == ["a"]


async def test_inline_runs_with_one_key_execute_the_body_once(field: Field, log: EffectLog) -> None:
    task = slow.with_options(idempotency_key="k")
    async with EffectLog(field.db) as other:
        results = await asyncio.gather(*((log if n % 2 else other).run(task, "a", 0.2) for n in range(20)))
    assert results == ["a"] * 20
    assert field.whats() == ["a"]


async def test_a_second_enqueue_gets_the_live_run_and_is_told_that_it_is_not_new(log: EffectLog) -> None:
    task = slow.with_options(idempotency_key="k")
    async with log.worker():
        first = await log.enqueue(task, "a", 0.3)
        while (await first.record()).state is not RunState.RUNNING:
            await asyncio.sleep(0.005)
        second = await log.enqueue(task, "a", 0.3)
        assert (first.created, second.created, first == second) == (True, False, True)
        assert await second.result(10) == "a"
    late = await log.enqueue(task, "a", 0.3)
    assert (late.created, await late.result(10)) == (False, "a")


async def test_another_payload_under_a_key_is_a_conflict_that_names_what_differs(log: EffectLog) -> None:
    task = slow.with_options(idempotency_key="k")
    first = await log.enqueue(task, "a", 0.3)
    with pytest.raises(IdempotencyConflict, match="another seconds") as caught:
        await log.enqueue(task, "a", 0.4)
    assert (caught.value.parameters, caught.value.run_id) == (["seconds"], first.id)


async def test_one_key_used_for_two_tasks_names_two_runs_and_hurts_neither(
    field: Field, log: EffectLog
) -> None:
    doomed = field.worker()
    one = await log.enqueue(two.with_options(idempotency_key="k"), "a", 0.3)
    await completed(one, 1)
    other = await log.enqueue(quick.with_options(idempotency_key="k"), "b")
    assert (one == other, other.created) == (False, True)
    await other.result(10)
    doomed.kill()
    async with log.worker():
        assert await one.result(10) == "a:2"
    assert sorted(field.whats()) == ["a:1", "a:2", "b"]


async def test_a_renamed_task_finds_the_keys_of_its_old_name(log: EffectLog) -> None:
    @durable_task(name="name before")
    async def before(what: str) -> str:
        return what

    @durable_task(name="name after", aliases=["name before"])
    async def after(what: str, extra: int = 0) -> str:
        return f"{what}{extra}"

    first = await log.enqueue(before.with_options(idempotency_key="k"), "a")
    second = await log.enqueue(after.with_options(idempotency_key="k"), "a")
    assert (second.id, second.created) == (first.id, False)
    with pytest.raises(IdempotencyConflict):
        await log.enqueue(after.with_options(idempotency_key="k"), "b")


async def test_a_purged_key_names_a_new_run_that_replays_nothing_old(field: Field, log: EffectLog) -> None:
    task = quick.with_options(idempotency_key="k")
    async with log.worker():
        first = await log.enqueue(task, "a")
        await first.result(10)
        assert await log.purge(0) == 1
        second = await log.enqueue(task, "b")
        assert (second.created, second.id == first.id) == (True, False)
        assert await second.result(10) == "b"
    assert field.whats() == ["a", "b"]
    with closing(sqlite3.connect(field.db)) as db:
        ids = {row[0] for row in db.execute("SELECT DISTINCT run_id FROM effectlog_effects")}
    assert ids == {second.id}


async def test_a_conflict_among_many_tells_which_runs_are_there_all_the_same(log: EffectLog) -> None:
    first = await log.enqueue(quick.with_options(idempotency_key="k1"), "a")
    with pytest.raises(IdempotencyConflict, match="2 new ones") as refused:
        await log.enqueue_many(quick, [("x",), ("other",), ("y",)], ["k0", "k1", "k2"])
    assert (refused.value.idempotency_key, refused.value.parameters) == ("k1", ["what"])
    stored = {run.id for run in await log.list_runs()} - {first.id}
    assert set(refused.value.created) == stored
    assert len(stored) == 2
    again = await log.enqueue_many(quick, [("x",), ("a",), ("y",)], ["k0", "k1", "k2"])
    assert [run.created for run in again] == [False] * 3
