"""Executes one run by a worker of its own until it has ended or is held, and gives its record."""

import contextlib
from typing import Any

from effectlog import EffectLog, RunCancelled, RunFailed, RunHeld, RunRecord


async def executed(log: EffectLog, task: Any, *args: Any) -> RunRecord:
    run = await log.enqueue(task, *args)
    async with log.worker(tasks=[task]):
        with contextlib.suppress(RunFailed, RunHeld, RunCancelled):
            await run.result(timeout=10)
    return await run.record()


def outcomes(record: RunRecord) -> list[str]:
    return [str(attempt.outcome) for attempt in record.attempts]


def states(record: RunRecord) -> dict[str, str]:
    return {effect.key: str(effect.state) for effect in record.effects}
