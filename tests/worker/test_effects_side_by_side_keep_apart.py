"""Effects of one run side by side: matched by key, whatever order they finish in and whatever the body decides."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest
from support.whole_records import whole_records
from worker_app import note

from effectlog import EffectLog, EffectState, Retry, durable_task, effect, operation_id

if TYPE_CHECKING:
    from support.worker_processes import Field

    from effectlog import Run

AGAIN = Retry(max_attempts=30, delay=0.0, jitter=0.0)


@effect(key="work:{name}")
async def work(name: str) -> str:
    note(f"{name} {operation_id()}")
    await asyncio.sleep(random.random() * 0.004)
    return name


async def _rounds(field: Field, log: EffectLog, rounds: int) -> None:
    """Bodies that fail at a random moment beside their effects, again and again."""
    names = ["a", "b", "c", "d"]

    @durable_task(name="gathers", retry=AGAIN)
    async def gathers(n: int) -> list[str]:
        calls = [work(f"{n}{name}") for name in random.sample(names, 4)]
        bomb = asyncio.create_task(_explode()) if random.random() < 0.6 else asyncio.sleep(0)
        *values, _ = await asyncio.gather(*calls, bomb)
        return sorted(values)

    async def _explode() -> None:
        await asyncio.sleep(random.random() * 0.004)
        raise RuntimeError("between them")

    async with log.worker():
        runs = await log.enqueue_many(gathers, [(n,) for n in range(rounds)])
        results = await asyncio.gather(*(run.result(50) for run in runs))
    assert results == [[f"{n}{name}" for name in names] for n in range(rounds)]
    # One operation id an effect, in whatever attempt it was requested.
    sent = [what.split(" ") for what in field.whats()]
    assert len({name for name, _ in sent}) == len({(name, id_) for name, id_ in sent}) == 4 * rounds
    records = await whole_records(log, limit=rounds)
    for effect_record in (one for record in records for one in record.effects):
        name = effect_record.key.removeprefix("work:")
        assert effect_record.state is EffectState.COMPLETED
        assert effect_record.result == name
        assert 1 <= sum(sent_name == name for sent_name, _ in sent) <= effect_record.requests


async def test_gathered_effects_survive_failures_at_random_moments(field: Field, log: EffectLog) -> None:
    await _rounds(field, log, 40)


@pytest.mark.long
async def test_two_hundred_rounds_of_gathered_effects(field: Field, log: EffectLog) -> None:
    await _rounds(field, log, 200)


@pytest.mark.parametrize("how", ["wait", "as_completed", "group"])
async def test_another_winner_after_a_resume_crosses_no_results(log: EffectLog, how: str) -> None:
    slow = [{"left": 0.0, "right": 0.05}, {"left": 0.05, "right": 0.0}]

    @effect(key="race:{side}")
    async def race(side: str, seconds: float) -> str:
        await asyncio.sleep(seconds)
        return side

    @effect(key="prize:{side}")
    async def prize(side: str) -> str:
        return f"prize of {side}"

    attempts: list[str] = []

    @durable_task(name=f"races by {how}", retry=AGAIN)
    async def races() -> str:
        pauses = slow[min(len(attempts), 1)]

        async def after(side: str) -> str:
            await asyncio.sleep(pauses[side])
            return await race(side, 0.0)

        sides = () if how == "group" else ("left", "right")
        tasks = [asyncio.ensure_future(after(side)) for side in sides]
        if how == "wait":
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            winner = next(iter(done)).result()
        elif how == "as_completed":
            winner = await next(asyncio.as_completed(tasks))
        else:
            async with asyncio.TaskGroup() as group:
                both = [group.create_task(after(side)) for side in ("left", "right")]
            winner = both[0].result()
        await asyncio.gather(*tasks)
        won = await prize(winner)
        attempts.append(won)
        if len(attempts) == 1:
            raise RuntimeError("once more")
        return won

    async with log.worker():
        run = await log.enqueue(races)
        assert await run.result(10) == attempts[-1]
    effects = {record.key: (record.requests, record.result) for record in (await run.record()).effects}
    assert effects.pop("race:left") == (1, "left")
    assert effects.pop("race:right") == (1, "right")
    assert effects == {f"prize:{won.removeprefix('prize of ')}": (1, won) for won in attempts}


async def test_ten_effects_at_a_time_each_know_their_own_operation(log: EffectLog) -> None:
    seen: dict[int, set[str]] = {}

    @effect(key="own:{n}")
    async def own(n: int) -> str:
        for _ in range(5):
            seen.setdefault(n, set()).add(operation_id())
            await asyncio.sleep(0)
        return operation_id()

    @durable_task(name="ten at a time")
    async def ten() -> list[str]:
        return list(await asyncio.gather(*(own(n) for n in range(10))))

    ids = await log.run(ten)
    assert [{one} for one in ids] == [seen[n] for n in range(10)]
    assert len(set(ids)) == 10


async def test_a_body_that_takes_another_branch_finishes_by_key(log: EffectLog) -> None:
    branches = iter(["heads", "tails"])

    @effect(key="side:{side}")
    async def side_effect(side: str) -> str:
        return side

    @durable_task(name="tosses", retry=AGAIN)
    async def tosses() -> str:
        side = next(branches)
        await side_effect(side)
        if side == "heads":
            raise RuntimeError("toss again")
        return side

    async def execute() -> Run[str]:
        async with log.worker():
            run = await log.enqueue(tosses)
            assert await run.result(10) == "tails"
        return run

    with pytest.warns(UserWarning, match="side:heads"):
        run = await execute()
    assert [record.key for record in (await run.record()).effects] == ["side:heads", "side:tails"]
