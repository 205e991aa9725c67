"""Context variables, the current attempt and the operation id in threads.

And the warning where they are missing.
"""

import asyncio
import contextvars
import re
import threading
import uuid
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.executing import executed, states

from effectlog import (
    EffectLog,
    EffectLogWarning,
    NotInAttempt,
    current_attempt,
    durable_task,
    effect,
    operation_id,
)

users_own: contextvars.ContextVar[str] = contextvars.ContextVar("users_own", default="unset")
calls: list[Any] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


@effect(key="look:{n}")
def look(n: int) -> list[Any]:
    calls.append(n)
    return [users_own.get(), current_attempt().run_id, operation_id(), threading.current_thread().name]


@effect(key="alook:{n}")
async def alook(n: int) -> list[Any]:
    before = operation_id()
    await asyncio.sleep(0)
    return [users_own.get(), current_attempt().run_id, operation_id(), before == operation_id()]


@durable_task
async def looks_around() -> list[Any]:
    users_own.set("set by the task")
    return [look(1), await asyncio.to_thread(look, 2), await alook(3), current_attempt().run_id]


async def test_a_task_and_its_effects_share_their_context(log: EffectLog) -> None:
    """F102."""
    record = await executed(log, looks_around)
    here, in_thread, in_async, run_id = record.result
    assert run_id == record.id
    for seen in (here, in_thread, in_async):
        assert seen[:2] == ["set by the task", record.id]
    ids = {effect.key: effect.operation_id for effect in record.effects}
    assert ids == {"look:1": here[2], "look:2": in_thread[2], "alook:3": in_async[2]}
    assert in_async[3] is True
    assert here[3] != in_thread[3]


@durable_task
async def ten_at_once() -> list[Any]:
    return await asyncio.gather(*(alook(n) for n in range(10)))


async def test_concurrent_effects_never_mix_up_their_ids(log: EffectLog) -> None:
    """F117."""
    record = await executed(log, ten_at_once)
    ids = {effect.key: effect.operation_id for effect in record.effects}
    assert [seen[2] for seen in record.result] == [ids[f"alook:{n}"] for n in range(10)]
    assert len(set(ids.values())) == 10
    assert all(seen[3] for seen in record.result)


@durable_task
def maps_with_bind() -> list[Any]:
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(current_attempt().bind(look), range(8)))


@effect(key="lone:{n}")
def lone(n: int) -> str:
    calls.append(n)
    return operation_id()


@durable_task
def maps_without_bind() -> list[str]:
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lone, range(8)))


async def test_a_pool_of_ones_own_journals_with_bind(log: EffectLog) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        record = await executed(log, maps_with_bind)
    assert states(record) == {f"look:{n}": "completed" for n in range(8)}
    assert sorted(calls) == list(range(8))


async def test_a_pool_without_bind_warns_once_and_runs_unjournaled(log: EffectLog) -> None:
    """F104."""
    with pytest.warns(EffectLogWarning, match=r"lone was called outside any attempt.*bind") as caught:
        record = await executed(log, maps_without_bind)
    assert len([w for w in caught if "lone" in str(w.message)]) == 1
    assert record.effects == ()
    assert sorted(calls) == list(range(8))
    assert len(set(record.result)) == 8


@effect(key="outside")
def outside() -> tuple[str, str]:
    return operation_id(), operation_id()


@effect(key="aoutside")
async def aoutside() -> tuple[str, str]:
    return operation_id(), await asyncio.to_thread(operation_id)


async def test_outside_an_attempt_each_call_has_one_fresh_id_and_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second, third = outside(), outside(), await aoutside()
    for pair in (first, second, third):
        assert pair[0] == pair[1] == str(uuid.UUID(pair[0]))
    assert len({first[0], second[0], third[0]}) == 3


@durable_task
def asks_for_an_id() -> str:
    with pytest.raises(NotInAttempt):
        operation_id()
    return "refused"


async def test_an_id_belongs_to_an_effect(log: EffectLog) -> None:
    with pytest.raises(NotInAttempt):
        operation_id()
    with pytest.raises(NotInAttempt, match="bind"):
        current_attempt()
    assert (await executed(log, asks_for_an_id)).result == "refused"


@durable_task
def shape_of_an_id() -> list[str]:
    return [look(1)[2], look(2)[2]]


async def test_operation_ids_fit_every_destination(log: EffectLog) -> None:
    one, two = (await executed(log, shape_of_an_id)).result
    assert one != two
    assert all(re.fullmatch(r"[0-9a-f-]{36}", value) for value in (one, two))


@durable_task
async def runs_a_loop_in_a_thread() -> list[Any]:
    return await asyncio.to_thread(lambda: asyncio.run(alook(1)))


@durable_task
def runs_a_loop_in_a_sync_task() -> list[Any]:
    return asyncio.run(_two())


async def _two() -> list[Any]:
    return [await alook(1), await alook(2)]


@pytest.mark.parametrize(
    "task", [runs_a_loop_in_a_thread, runs_a_loop_in_a_sync_task], ids=["thread", "sync"]
)
async def test_async_effects_work_on_another_loop_of_the_attempt(log: EffectLog, task: Any) -> None:
    record = await executed(log, task)
    assert record.state == "succeeded"
    assert set(states(record).values()) == {"completed"}
