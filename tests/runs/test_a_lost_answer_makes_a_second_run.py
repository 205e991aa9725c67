"""F169: the caller never hears that its run was stored, and asks again: with its key that is the same run."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from worker_app import quick

if TYPE_CHECKING:
    from support.worker_processes import Field

    from effectlog import EffectLog


async def _asked_again(field: Field, log: EffectLog, key: str | None) -> tuple[bool, int]:
    """Whether the second call made a run, and how many there are."""
    caller = field.start("enqueue unheard", task="quick", key=key, args=["a"])
    assert caller.wait() == -signal.SIGKILL
    assert len(await log.list_runs()) == 1
    run = await log.enqueue(quick.with_options(idempotency_key=key), "a")
    async with log.worker():
        assert await run.result(10) == "a"
    return run.created, len(await log.list_runs())


async def test_a_caller_killed_before_the_answer_asks_again_with_its_key_and_gets_the_same_run(
    field: Field, log: EffectLog
) -> None:
    assert await _asked_again(field, log, "order:1") == (False, 1)
    assert field.whats() == ["a"]


async def test_without_a_key_nothing_can_tell_the_two_calls_apart(field: Field, log: EffectLog) -> None:
    assert await _asked_again(field, log, None) == (True, 2)
