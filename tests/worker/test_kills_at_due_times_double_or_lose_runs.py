"""F171: workers are killed exactly when delayed runs become due: each run happens once, none early, none never."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from support.whole_records import whole_records
from worker_app import slow

if TYPE_CHECKING:
    from support.worker_processes import Field

    from effectlog import EffectLog

RUNS, WAVES, APART = 200, 5, 0.4


async def test_two_hundred_delayed_runs_happen_once_though_workers_die_as_they_become_due(
    field: Field, log: EffectLog
) -> None:
    workers = [field.worker() for _ in range(2)]
    first = datetime.now(UTC) + timedelta(seconds=1.0)
    waves = [first + timedelta(seconds=APART * n) for n in range(WAVES)]
    due = {str(n): waves[n % WAVES] for n in range(RUNS)}
    calls = (log.enqueue(slow.with_options(at=at), what, 0.05) for what, at in due.items())
    runs = await asyncio.gather(*calls)
    for n, wave in enumerate(waves):
        killed_at = wave + timedelta(seconds=0.02 * n)  # From before the claim to amid the effects.
        await asyncio.sleep((killed_at - datetime.now(UTC)).total_seconds())
        for worker in workers:
            worker.kill()
        workers = [field.worker() for _ in workers]
    assert await asyncio.gather(*(run.result(45) for run in runs)) == list(due)
    monotonic = time.time() - time.monotonic()
    assert all(request.at + monotonic >= due[request.what].timestamp() - 0.01 for request in field.requests())
    requests, records = Counter(field.whats()), await whole_records(log, limit=2 * RUNS)
    assert len(records) == RUNS
    for record in records:
        (effect,) = record.effects
        # What was amid its request when the worker died is asked again; killed before it, it had not been
        # asked at all.
        assert 1 <= requests[str(effect.result)] <= effect.requests <= len(record.attempts)
    again = sum(len(record.attempts) - 1 for record in records)
    print(f"{again} second attempts, {sum(count > 1 for count in requests.values())} second requests")
    assert again, "no kill came while runs were being executed"
