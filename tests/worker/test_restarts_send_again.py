"""F036: the receiver has it and the worker goes before it is recorded: a clean restart sends nothing again, a crash once."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from worker_app import delivers

if TYPE_CHECKING:
    from support.worker_processes import Field

    from effectlog import EffectLog

RESTARTS = 5


@pytest.mark.parametrize("kills", [0, 1, 3])
async def test_each_crash_costs_one_more_request_and_no_clean_restart_any(
    field: Field, log: EffectLog, kills: int
) -> None:
    run = await log.enqueue(delivers, "a", kills)
    for start in range(RESTARTS + 1):
        worker = field.worker()
        if start > kills:
            worker.signal(signal.SIGTERM)
        # It goes by itself up to the delivery that lets it live: killed, or drained by the signal amid its
        # effect.
        assert worker.wait() == (-signal.SIGKILL if start < kills else 0)
        assert len(field.requests()) == min(start, kills) + 1
    assert await run.result(10) == "a"
    (effect,) = (await run.record()).effects
    assert effect.requests == len((await run.record()).attempts) == kills + 1
    assert set(field.whats()) == {f"deliver a {effect.operation_id}"}
