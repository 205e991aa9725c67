"""Stored rows as the records that people and programs read; reading never fails on a value."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from effectlog.clock import utc
from effectlog.errors import DecodingError
from effectlog.model import DAMAGED, AttemptRecord, EffectRecord, ErrorInfo, RunRecord, RunState, RunSummary
from effectlog.store.rules.evidence import executing_now

if TYPE_CHECKING:
    from effectlog.codec import Codec
    from effectlog.store.rows import AttemptRow, EffectRow, StoredRun, StoredSummary


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands in a record for a value that this process can't rebuild; ``stored`` is its stored text."""

    reason: str
    stored: str


def run_summary(run: StoredSummary) -> RunSummary:
    """One run as lists return it."""
    return RunSummary(**_head(run))


def run_record(run: StoredRun, codec: Codec, *, owner_gone: bool) -> RunRecord:
    """One run as a record. ``owner_gone``: whoever executes it, by the row, is known not to any more."""
    args = _value(run.args, codec)
    return RunRecord(
        **_head(run),
        args=args if isinstance(args, dict) else {"unreadable": args},
        attempts=tuple(_attempt(attempt) for attempt in run.attempts),
        effects=tuple(_effect(run, effect, codec, owner_gone=owner_gone) for effect in run.effects),
        result=_value(run.result, codec),
    )


def doubts(run: StoredSummary, *, owner_gone: bool) -> list[str]:
    """The keys of its effects in doubt; ``owner_gone`` as in ``run_record``."""
    return [effect.key for effect in run.unsettled if owner_gone or not executing_now(run.row, effect)]


def _head(run: StoredRun | StoredSummary) -> dict[str, Any]:
    row = run.row
    return {
        "id": row.id,
        "task": row.task,
        "state": row.state,
        "error": row.error or (None if run.damage is None else ErrorInfo(DAMAGED, run.damage)),
        "idempotency_key": run.idempotency_key,
        "correlation_id": run.correlation_id,
        "parent_id": run.parent_id,
        "created_at": utc(run.created_at),
        "due_at": utc(row.due_at),
        "finished_at": None if row.finished_at is None else utc(row.finished_at),
        "dead_letter": row.state is RunState.FAILED,
    }


def _attempt(row: AttemptRow) -> AttemptRecord:
    return AttemptRecord(
        number=row.number,
        worker=row.worker,
        started_at=utc(row.started_at),
        ended_at=None if row.ended_at is None else utc(row.ended_at),
        outcome=row.outcome,
        error=row.error,
    )


def _effect(run: StoredRun, effect: EffectRow, codec: Codec, *, owner_gone: bool) -> EffectRecord:
    executing = executing_now(run.row, effect) and not owner_gone
    return EffectRecord(
        key=effect.key,
        name=effect.name,
        operation_id=effect.operation_id,
        state=effect.state,
        in_doubt=effect.unsettled and not executing,
        final=effect.final,
        requests=effect.requests,
        started_at=utc(effect.started_at),
        finished_at=None if effect.finished_at is None else utc(effect.finished_at),
        attempt=effect.attempt,
        result=_value(effect.result, codec),
        error=effect.error,
        destination=None if effect.destination is None else _contract_name(effect.destination),
        resolved_by=effect.resolved_by,
        evidence=_evidence(effect),
    )


def _contract_name(stored: str) -> str:
    try:
        return str(json.loads(stored)["name"])
    except (ValueError, TypeError, KeyError):
        return stored


def _evidence(effect: EffectRow) -> str | None:
    lines = [effect.evidence] if effect.evidence else []
    if effect.late_attempt is not None:
        value = (
            "a value that can't be stored"
            if effect.late_result is None
            else effect.late_result.decode("utf-8", "replace")
        )
        lines.append(f"attempt {effect.late_attempt} reported late that it was applied, with {value}")
    if effect.result_error is not None:
        lines.append(f"completed, but its result could not be stored: {effect.result_error}")
    return "\n".join(lines) or None


def _value(data: bytes | None, codec: Codec) -> Any:
    if data is None:
        return None
    try:
        return codec.decode(data)
    except DecodingError as error:
        return Unreadable(str(error), data.decode("utf-8", "replace"))
