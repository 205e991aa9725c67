"""Effects side by side are matched by key: another order, another winner, another branch crosses no results."""

import asyncio
import random
from typing import Any

import pytest
from support.executing import executed, outcomes, states

from effectlog import EffectLog, EffectLogWarning, Retry, current_attempt, durable_task, effect

calls: list[str] = []
chance = random.Random()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


@effect(key="part:{name}")
async def part(name: str) -> str:
    calls.append(name)
    await asyncio.sleep(0)
    return f"value of {name}"


class Broken(Exception):
    pass


@durable_task(retry=Retry(max_attempts=4, delay=0))
async def in_any_order(names: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    breaks_after = chance.randrange(len(names)) if current_attempt().number < 3 else len(names)

    async def one(name: str) -> None:
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        found[name] = await part(name)
        if len(found) > breaks_after:
            raise Broken

    await asyncio.gather(*(one(name) for name in chance.sample(names, len(names))))
    return {name: found[name] for name in names}


@pytest.mark.parametrize("seed", range(12))
async def test_gathered_in_another_order_each_gets_its_own(log: EffectLog, seed: int) -> None:
    """F114."""
    chance.seed(seed)
    names = list("abcdef")
    record = await executed(log, in_any_order, names)
    assert record.result == {name: f"value of {name}" for name in names}
    assert sorted(calls) == names
    assert outcomes(record)[-1] == "succeeded"


@durable_task(retry=Retry(max_attempts=2, delay=0))
async def the_first_one_wins() -> list[str]:
    number = current_attempt().number

    async def racer(name: str, slow: bool) -> str:
        for _ in range(20 if slow else 0):
            await asyncio.sleep(0.001)
        return await part(name)

    racers = [asyncio.create_task(racer(name, slow=(name == "b") == (number == 1))) for name in "ab"]
    done, pending = await asyncio.wait(racers, return_when=asyncio.FIRST_COMPLETED)
    winner = done.pop().result()
    follow_up = await part(f"after {winner[-1]}")
    await asyncio.gather(*pending)
    if number == 1:
        raise Broken
    return [winner, follow_up]


async def test_another_winner_takes_another_branch_with_its_own_values(log: EffectLog) -> None:
    """F116, F119: what the first branch had recorded stays visible, and a warning names it."""
    with pytest.warns(EffectLogWarning, match="after a"):
        record = await executed(log, the_first_one_wins)
    assert record.result == ["value of b", "value of after b"]
    assert calls == ["a", "after a", "b", "after b"]
    assert states(record)["part:after a"] == "completed"


@durable_task(retry=Retry(max_attempts=2, delay=0))
async def as_they_complete() -> list[str]:
    names = ["x", "y", "z"] if current_attempt().number == 1 else ["z", "x", "y"]
    found = [await done for done in asyncio.as_completed([part(name) for name in names])]
    if current_attempt().number == 1:
        raise Broken
    return sorted(found)


async def test_as_completed_is_replayed(log: EffectLog) -> None:
    record = await executed(log, as_they_complete)
    assert record.result == ["value of x", "value of y", "value of z"]
    assert sorted(calls) == ["x", "y", "z"]


class Declined(Exception):
    pass


@effect(key="card", final=Declined)
async def card() -> None:
    calls.append("card")
    raise Declined("no money")


@durable_task(retry=Retry(max_attempts=5, delay=0))
async def pays_in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(card())


async def test_a_final_error_ends_the_run_from_inside_a_group_too(log: EffectLog) -> None:
    record = await executed(log, pays_in_a_group)
    assert outcomes(record) == ["error"]
    assert calls == ["card"]


@durable_task(retry=Retry(max_attempts=3, delay=0))
async def conflicting_branches(_: Any = None) -> str:
    name = "p" if current_attempt().number == 1 else "q"
    await part(name)
    if current_attempt().number == 1:
        raise Broken
    return name


async def test_a_body_that_branches_at_random_finishes_by_key(log: EffectLog) -> None:
    with pytest.warns(EffectLogWarning, match="part:p"):
        record = await executed(log, conflicting_branches)
    assert record.result == "q"
    assert calls == ["p", "q"]
