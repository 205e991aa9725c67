"""A run that takes its process along ends as the only dead letter, whatever was beside it."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from support.whole_records import whole_records
from worker_app import poison, slow

from effectlog import AttemptOutcome, EffectLog, RunFailed, RunState

if TYPE_CHECKING:
    from support.worker_processes import Field


async def _supervise(field: Field, log: EffectLog, runs: int) -> int:
    """Start a worker whenever the last one has died, until every run has ended; how many died."""
    deaths = 0
    worker = field.worker()
    while sum(record.state.ended for record in await log.list_runs(limit=runs)) < runs:
        if worker.exit_code is not None:
            assert worker.wait() == 9
            deaths += 1
            worker = field.worker()
        await asyncio.sleep(0.02)
    return deaths


async def test_one_poisonous_run_among_ninety_nine_is_the_only_dead_letter(
    field: Field, log: EffectLog
) -> None:
    before = await log.enqueue_many(slow, [(str(n), 0.01) for n in range(50)])
    bad = await log.enqueue(poison, "poison")
    after = await log.enqueue_many(slow, [(str(n), 0.01) for n in range(50, 99)])
    deaths = await _supervise(field, log, 100)
    assert deaths == 3
    assert await asyncio.gather(*(run.result(10) for run in before + after)) == [str(n) for n in range(99)]
    (dead,) = await whole_records(log, state="failed")
    assert dead.id == bad.id
    assert [attempt.outcome for attempt in dead.attempts] == [AttemptOutcome.EXPIRED] * 3
    assert dead.error is not None
    assert "worker lost" in dead.error.message
    requests = Counter(field.whats())
    assert requests.pop("poison") == 3
    assert max(requests.values()) <= 3, "only those that were beside it were asked again"


async def test_a_crash_is_no_error_and_another_round_counts_anew(field: Field, log: EffectLog) -> None:
    bad = await log.enqueue(poison, "poison")
    await _supervise(field, log, 1)
    with pytest.raises(RunFailed) as caught:
        await bad.result(10)
    assert caught.value.type_name == "effectlog.WorkerLost"
    await bad.retry()
    await _supervise(field, log, 1)
    record = await bad.record()
    assert (record.state, len(record.attempts)) == (RunState.FAILED, 6)
