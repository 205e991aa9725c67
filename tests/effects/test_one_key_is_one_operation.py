"""The same key in one attempt: answered once, whoever asks, from wherever; other arguments are refused."""

import asyncio
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.executing import executed, outcomes, states

from effectlog import (
    EffectConflict,
    EffectLog,
    EffectLogWarning,
    Retry,
    current_attempt,
    durable_task,
    effect,
)

calls: list[str] = []
entered = threading.Event()
leave = threading.Event()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()
    entered.clear()
    leave.clear()


@effect(key="pay:{order}")
def pay(order: str, cents: int = 5) -> str:
    calls.append(order)
    return f"paid {order} {cents}"


@effect(key="pay:{order}")
def pay_elsewhere(order: str, cents: int = 5) -> str:
    calls.append("elsewhere")
    return "elsewhere"


@effect(key="slow:{order}")
def slow(order: str) -> str:
    calls.append(order)
    entered.set()
    leave.wait(20)
    return "slow"


@effect(key="aslow:{order}")
async def aslow(order: str) -> str:
    calls.append(order)
    entered.set()
    await asyncio.to_thread(leave.wait, 5)
    return "aslow"


@durable_task
def twice() -> list[str]:
    return [pay("a"), pay("a", 5), pay(order="a"), pay("a")]


async def test_again_with_the_same_arguments_gives_the_record_and_one_warning(log: EffectLog) -> None:
    with pytest.warns(EffectLogWarning, match="used again") as caught:
        record = await executed(log, twice)
    assert record.result == ["paid a 5"] * 4
    assert calls == ["a"]
    assert len([w for w in caught if "used again" in str(w.message)]) == 1


@durable_task(retry=Retry(max_attempts=2, delay=0))
def replays_twice() -> list[str]:
    values = [pay("a")]
    if current_attempt().number == 1:
        raise OSError("first")
    return [*values, pay("a"), pay("a")]


async def test_a_key_used_twice_by_an_attempt_that_only_replays_warns_too(log: EffectLog) -> None:
    with pytest.warns(EffectLogWarning, match="used again in attempt 2") as caught:
        record = await executed(log, replays_twice)
    assert record.result == ["paid a 5"] * 3
    assert len([w for w in caught if "used again" in str(w.message)]) == 1


@durable_task(retry=Retry(max_attempts=2, delay=0))
def first_replays() -> str:
    value = pay("a")
    if current_attempt().number == 1:
        raise OSError("first")
    return value


async def test_a_replay_is_no_second_use(log: EffectLog) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        record = await executed(log, first_replays)
    assert outcomes(record) == ["error", "succeeded"]
    assert calls == ["a"]


@durable_task
def other_arguments() -> str:
    pay("a", 5)
    with pytest.raises(EffectConflict, match="cents") as caught:
        pay("a", 6)
    assert caught.value.parameters == ["cents"]
    with pytest.raises(EffectConflict, match="pay_elsewhere"):
        pay_elsewhere("a", 5)
    return "refused"


async def test_other_arguments_or_another_function_are_refused_by_name(log: EffectLog) -> None:
    record = await executed(log, other_arguments)
    assert record.result == "refused"
    assert calls == ["a"]


@durable_task
async def gathered() -> list[str]:
    leave.set()
    return await asyncio.gather(*(aslow("a") for _ in range(10)))


@durable_task
def threaded() -> list[str]:
    bound = current_attempt().bind(slow)
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(bound, "a") for _ in range(8)]
        entered.wait(20)
        leave.set()
        return [future.result() for future in futures]


@pytest.mark.parametrize("task", [gathered, threaded], ids=["gather", "threads"])
async def test_concurrent_calls_make_one_request(log: EffectLog, task: Any) -> None:
    with pytest.warns(EffectLogWarning, match="used again"):
        record = await executed(log, task)
    assert len(calls) == 1
    assert set(record.result) in ({"aslow"}, {"slow"})
    assert record.effects[0].requests == 1


@durable_task
async def one_waiter_leaves() -> list[Any]:
    first = asyncio.create_task(aslow("a"))
    await asyncio.to_thread(entered.wait, 5)
    waiters = [asyncio.create_task(aslow("a")) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiters[0].cancel()
    await asyncio.wait({waiters[0]})
    leave.set()
    return [await first, await waiters[1], await waiters[2], waiters[0].cancelled()]


async def test_a_waiter_that_is_cancelled_takes_nobody_along(log: EffectLog) -> None:
    with pytest.warns(EffectLogWarning, match="used again"):
        record = await executed(log, one_waiter_leaves)
    assert record.result == ["aslow", "aslow", "aslow", True]
    assert len(calls) == 1


@effect(key="aslow:{order}")
def in_sync(order: str) -> str:
    return "sync"


@effect(key="aslow:{order}")
async def in_async(order: str) -> str:
    entered.set()
    await asyncio.to_thread(leave.wait, 5)
    return "async"


@durable_task
async def waits_on_itself() -> str:
    first = asyncio.create_task(in_async("a"))
    while not entered.is_set():
        await asyncio.sleep(0)
    with pytest.raises(EffectConflict, match="on this very loop"):
        in_sync("a")
    leave.set()
    return await first


async def test_a_sync_call_never_waits_for_its_own_loop(log: EffectLog) -> None:
    record = await executed(log, waits_on_itself)
    assert record.result == "async"


@durable_task
async def joins_another_thread() -> list[str]:
    first = asyncio.create_task(asyncio.to_thread(slow, "a"))
    await asyncio.to_thread(entered.wait, 5)
    threading.Timer(0.02, leave.set).start()
    return [slow("a"), await first]


async def test_a_sync_call_does_wait_for_another_thread(log: EffectLog) -> None:
    with pytest.warns(EffectLogWarning, match="used again"):
        record = await executed(log, joins_another_thread)
    assert record.result == ["slow", "slow"]
    assert calls == ["a"]


@effect(key="inner:{n}")
def inner(n: int) -> int:
    calls.append(f"inner {n}")
    return n


@effect(key="outer")
def outer() -> int:
    return inner(1) + inner(2)


@effect(key="aouter")
async def aouter() -> int:
    return inner(3) + await asyncio.to_thread(inner, 4)


@durable_task(retry=Retry(max_attempts=2, delay=0))
async def nested() -> int:
    total = outer() + await aouter()
    if current_attempt().number == 1:
        raise OSError("again")
    return total


async def test_an_effect_in_an_effect_is_part_of_the_outer_one(log: EffectLog) -> None:
    record = await executed(log, nested)
    assert record.result == 10
    assert states(record) == {"outer": "completed", "aouter": "completed"}
    assert calls == ["inner 1", "inner 2", "inner 3", "inner 4"]
