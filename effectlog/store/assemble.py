"""Puts runs together from the rows they are kept in: for their claimer, and for whoever asks.

What can't be read of a run is left out and noted as its damage, so that no other run suffers from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from effectlog.errors import StoreError
from effectlog.store.columns import OUTCOMES, attempt_from, effect_from, run_from, unsettled_from
from effectlog.store.rows import StoredRun, StoredSummary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from effectlog.store.rows import AttemptRow, RunRow

T = TypeVar("T")


def claimed_runs(
    runs: Iterable[RunRow],
    first: Iterable[AttemptRow],
    payloads: Iterable[Sequence[Any]],
    attempts: Iterable[Sequence[Any]],
    effects: Iterable[Sequence[Any]],
) -> list[StoredRun]:
    """Return runs that were just claimed: rows and first attempts are known, the rest was read."""
    args = {payload[0]: payload for payload in payloads}
    found = {run.id: _stored_run(run.copy(), args[run.id]) for run in runs}
    _add_history(found, attempts, effects)
    for attempt in first:
        found[attempt.run_id].attempts.append(attempt)
    return list(found.values())


def whole_runs(
    run_ids: Iterable[str],
    rows: Iterable[Sequence[Any]],
    payloads: Iterable[Sequence[Any]],
    attempts: Iterable[Sequence[Any]],
    effects: Iterable[Sequence[Any]],
) -> list[StoredRun]:
    """Runs as their rows make them up, in the order of the ids; what can't be read is left out and noted."""
    by_id = {row[0]: row for row in rows}
    found = {p[0]: _stored_from(by_id[p[0]], p) for p in payloads if p[0] in by_id}
    _add_history(found, attempts, effects)
    return [found[run_id] for run_id in run_ids if run_id in found]


def summaries(
    run_ids: Iterable[str], rows: Iterable[Sequence[Any]], unsettled: Iterable[Sequence[Any]]
) -> list[StoredSummary]:
    """Runs as lists show them, in the order of the ids; what can't be read is left out and noted."""
    found = {row[0]: _summary_from(row) for row in rows}
    for row in unsettled:
        if row[0] in found:
            _keep(found[row[0]], found[row[0]].unsettled, unsettled_from, row)
    return [found[run_id] for run_id in run_ids if run_id in found]


def _summary_from(row: Sequence[Any]) -> StoredSummary:
    created_at, idempotency_key, correlation_id, parent_id, attempts, requests = row[-6:]
    return StoredSummary(
        run_from(row[:-6]),
        created_at,
        idempotency_key,
        correlation_id,
        parent_id,
        attempts,
        requests,
        damage=_damage_of(row),
    )


def _add_history(
    found: Mapping[str, StoredRun], attempts: Iterable[Sequence[Any]], effects: Iterable[Sequence[Any]]
) -> None:
    for row in attempts:
        if row[0] in found:
            _keep(found[row[0]], found[row[0]].attempts, attempt_from, row)
    for row in effects:
        if row[0] in found:
            _keep(found[row[0]], found[row[0]].effects, effect_from, row)


def _keep(
    run: StoredRun | StoredSummary, kept: list[T], read: Callable[[Sequence[Any]], T], row: Sequence[Any]
) -> None:
    try:
        kept.append(read(row))
    except StoreError as error:
        run.damage = run.damage or str(error)


def _stored_from(row: Sequence[Any], payload: Sequence[Any]) -> StoredRun:
    stored = _stored_run(run_from(row), payload)
    stored.damage = _damage_of(row)
    return stored


def _damage_of(row: Sequence[Any]) -> str | None:
    if row[5] is None or row[5] in OUTCOMES:
        return None
    return f"the row of run {row[0]} is damaged in the store: {row[5]!r} is no outcome of an attempt"


def _stored_run(row: RunRow, payload: Sequence[Any]) -> StoredRun:
    return StoredRun(
        row=row,
        args=payload[1],
        created_at=payload[2],
        result=payload[3],
        scope=payload[4],
        idempotency_key=payload[5],
        correlation_id=payload[6],
        parent_id=payload[7],
        event=payload[8],
        depth=payload[9],
        trace=payload[10],
    )
