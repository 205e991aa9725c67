"""Danger: an attempt that waits in doubt goes on asking, or holds its run, over a decision that was made meanwhile."""

import asyncio
from typing import Any

import pytest

from effectlog import Applied, EffectLog, NotApplied, Retry, Unknown, durable_task, effect

asked: list[str] = []
told: list[str] = []


def cannot_tell(which: str) -> Unknown:
    asked.append(which)
    return Unknown(retry_after=0.1)


@effect(key="charge", name="news/charge", in_doubt=cannot_tell, lookup_budget=60.0)
def charge(which: str) -> str:
    raise ConnectionResetError("no answer")


@effect(key="acharge", name="news/acharge", in_doubt=cannot_tell, lookup_budget=60.0)
async def acharge(which: str) -> str:
    raise ConnectionResetError("no answer")


@durable_task(name="news/sync", retry=Retry(max_attempts=2, delay=0.0))
def sync_task(which: str) -> str:
    return charge(which)


@durable_task(name="news/async", retry=Retry(max_attempts=2, delay=0.0))
async def async_task(which: str) -> str:
    return await acharge(which)


@pytest.mark.parametrize(
    ("task", "key"), [(sync_task, "charge"), (async_task, "acharge")], ids=["sync", "async"]
)
async def test_a_decision_is_seen_between_two_questions(tmp_path: Any, task: Any, key: str) -> None:
    asked.clear()
    async with EffectLog(tmp_path / "runs.db", check_store=False) as log, log.worker():
        run = await log.enqueue(task, "a")
        while len(asked) < 2:
            await asyncio.sleep(0.01)
        await log.resolve(run.id, key, Applied("ch_1"), by="webhook")
        before = len(asked)
        assert await run.result(10) == "ch_1"
        assert len(asked) <= before + 1
        assert len((await run.record()).attempts) == 2


@effect(key="odd", name="news/odd", in_doubt="hold")
def odd(fails: bool) -> int:
    told.append("sent")
    if len(told) == 1:
        raise ConnectionResetError("no answer")
    return "not a number"  # type: ignore[return-value] - as a provider may answer


@durable_task(name="news/odd-task", retry=Retry(max_attempts=3, delay=0.0))
def odd_task() -> str:
    value: Any = odd(fails=True)
    if len(told) == 2:
        told.append("replayed next")
        raise RuntimeError("once more")
    return f"got {value}"


async def test_a_value_of_the_function_itself_is_not_taken_for_a_decision(tmp_path: Any) -> None:
    """First execution and replay can't differ, whatever somebody had decided about an earlier request."""
    told.clear()
    async with EffectLog(tmp_path / "runs.db", check_store=False) as log, log.worker():
        run = await log.enqueue(odd_task)
        while (await run.record()).state != "held":
            await asyncio.sleep(0.01)
        await log.resolve(run.id, "odd", NotApplied(), by="ops")
        assert await run.result(10) == "got not a number"
        (effect_record,) = (await run.record()).effects
        assert effect_record.resolved_by is None
        assert "settled as not applied by ops before" in (effect_record.evidence or "")
    assert told == ["sent", "sent", "replayed next"]
