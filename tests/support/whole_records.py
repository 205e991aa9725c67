"""The records of the runs that a list names: lists hold neither values nor history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from effectlog import EffectLog, RunRecord


async def whole_records(log: EffectLog, **filters: Any) -> list[RunRecord]:
    return [await (await log.get_run(run.id)).record() for run in await log.list_runs(**filters)]


def whole_records_sync(log: EffectLog, **filters: Any) -> list[RunRecord]:
    return [log.sync.get_run(run.id).record() for run in log.sync.list_runs(**filters)]
