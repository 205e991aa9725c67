"""An effect that a body leaves to a task of its own is sent, or a warning names it."""

import asyncio
import warnings

import pytest
from support.executing import executed

from effectlog import EffectLog, Retry, RunState, durable_task, effect

sent: list[str] = []
kept: list[asyncio.Task[None]] = []
once = Retry(max_attempts=1)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    sent.clear()
    kept.clear()


@effect(key="mail")
async def mail() -> None:
    sent.append("mail")


@durable_task(retry=once)
async def leaves_a_task() -> str:
    kept.append(asyncio.create_task(mail()))
    return "ok"


@durable_task(retry=once)
async def gives_up_waiting() -> str:
    kept.append(asyncio.create_task(mail()))
    await asyncio.wait(kept, timeout=0)
    return "ok"


@durable_task(retry=once)
async def waits_for_its_task() -> str:
    await asyncio.create_task(mail())
    return "ok"


@pytest.mark.parametrize("task", [leaves_a_task, gives_up_waiting], ids=["left", "given up"])
async def test_what_the_body_left_behind_is_sent_or_named(log: EffectLog, task: object) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        record = await executed(log, task)
    await asyncio.gather(*kept, return_exceptions=True)
    assert record.state is RunState.SUCCEEDED
    told = [str(warning.message) for warning in caught]
    # One that could begin before the body was over was waited for.
    assert sent or any("could begin" in text and "silence.mail" in text for text in told)


async def test_a_task_that_is_waited_for_is_sent(log: EffectLog) -> None:
    record = await executed(log, waits_for_its_task)
    assert record.state is RunState.SUCCEEDED
    assert sent == ["mail"]
