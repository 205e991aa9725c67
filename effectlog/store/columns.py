"""How rows become tuples of plain column values and back; the same for every dialect.

A stored value that no version of effectlog can have written is a StoreError that names its run.
"""

from __future__ import annotations

from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from effectlog.errors import StoreError
from effectlog.model import AttemptOutcome, EffectState, ErrorInfo, Policy, RunState
from effectlog.store import commands as c
from effectlog.store.rows import AttemptRow, EffectRow, NewRun, RequestClock, RunRow, UnsettledEffect
from effectlog.store.rules.working_set import KeyRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from effectlog.store.rules.working_set import IdempotencyKey

Columns = tuple[Any, ...]

_encode = msgspec.json.Encoder().encode
_fingerprints = msgspec.json.Decoder(dict[str, str]).decode
_attempts = msgspec.json.Decoder(tuple[int, ...]).decode
_keys = msgspec.json.Decoder(tuple[str, ...]).decode
OUTCOMES = frozenset(outcome.value for outcome in AttemptOutcome)


def _text(value: object) -> str:
    return _encode(value).decode()


T = TypeVar("T")


def _reading(what: str) -> Callable[[Callable[[Sequence[Any]], T]], Callable[[Sequence[Any]], T]]:
    """Say of which run a row is that can't be read; the id is the first column of each."""

    def decorate(read: Callable[[Sequence[Any]], T]) -> Callable[[Sequence[Any]], T]:
        @wraps(read)
        def checked(row: Sequence[Any]) -> T:
            try:
                return read(row)
            except (ValueError, TypeError) as error:
                raise StoreError(f"{what} of run {row[0]} is damaged in the store: {error}") from error

        return checked

    return decorate


def readable(read: Callable[[Sequence[Any]], T], rows: Iterable[Sequence[Any]]) -> Iterator[T]:
    """Those rows that can be read, for decisions about many runs that must not fail for one of them."""
    for row in rows:
        with suppress(StoreError):
            yield read(row)


@_reading("the row")
def run_from(row: Sequence[Any]) -> RunRow:
    return RunRow(
        id=row[0],
        task=row[1],
        state=RunState(row[2]),
        due_at=row[3],
        attempt=row[4],
        attempt_outcome=AttemptOutcome(row[5]) if row[5] in OUTCOMES else None,
        owner=row[6],
        lease_expires=row[7],
        lease_clock=row[8],
        releasing=bool(row[9]),
        errors=row[10],
        crashes=row[11],
        cancel_requested=bool(row[12]),
        finished_at=row[13],
        error=_error_from(row[14:17]),
        waits_since=row[17] if row[17:] else None,
    )


def run_update(run: RunRow) -> Columns:
    return (
        str(run.state),
        run.due_at,
        run.attempt,
        None if run.attempt_outcome is None else str(run.attempt_outcome),
        run.owner,
        run.lease_expires,
        run.lease_clock,
        run.releasing,
        run.errors,
        run.crashes,
        run.cancel_requested,
        run.finished_at,
        *_error_columns(run.error),
        run.result,
        run.id,
    )


def run_insert(run: NewRun) -> Columns:
    return (
        run.id,
        run.task,
        run.due_at,
        run.created_at,
        run.event,
        run.scope,
        run.idempotency_key,
        run.correlation_id,
        run.parent_id,
        run.depth,
        run.concurrency_key,
        run.trace,
        run.args,
    )


@_reading("an attempt")
def attempt_from(row: Sequence[Any]) -> AttemptRow:
    return AttemptRow(
        run_id=row[0],
        number=row[1],
        owner=row[2],
        worker=row[3],
        started_at=row[4],
        ended_at=row[5],
        outcome=AttemptOutcome(row[6]) if row[6] else None,
        error=_error_from(row[7:10]),
        trace=row[10],
    )


def attempt_insert(row: AttemptRow) -> Columns:
    return (row.run_id, row.number, row.owner, row.worker, row.started_at)


def attempt_end(row: AttemptRow) -> Columns:
    outcome = None if row.outcome is None else str(row.outcome)
    return (row.ended_at, outcome, *_error_columns(row.error), row.run_id, row.number)


def trace_update(traced: tuple[str, int, str]) -> Columns:
    return traced


@_reading("an effect")
def effect_from(row: Sequence[Any]) -> EffectRow:
    effect = _effect_from(row)
    # What the database's own rules forbid: decided by such a row, a request could be made twice, or never.
    consistent = (
        effect.version > 0
        and effect.generation >= 0
        and 0 <= effect.open_requests <= effect.requests
        and effect.unsettled == (effect.finished_at is None) == (effect.open_requests > 0)
        and (effect.state is EffectState.COMPLETED)
        == (effect.result is not None or effect.result_error is not None)
        and (effect.state is EffectState.FAILED or not effect.final)
    )
    if not consistent:
        raise ValueError("its state, its counts and its outcome contradict each other")
    return effect


@_reading("an effect")
def unsettled_from(row: Sequence[Any]) -> UnsettledEffect:
    return UnsettledEffect(row[0], row[1], _attempts(row[2]))


def _effect_from(row: Sequence[Any]) -> EffectRow:
    return EffectRow(
        run_id=row[0],
        key=row[1],
        name=row[2],
        operation_id=row[3],
        fingerprints=_fingerprints(row[4]),
        policy=Policy(row[5]),
        state=EffectState(row[6]),
        version=row[7],
        generation=row[8],
        requests=row[9],
        open_requests=row[10],
        executing=_attempts(row[11]),
        attempt=row[12],
        first_request=_request_clock(*row[13:16]),
        started_at=row[16],
        finished_at=row[17],
        final=bool(row[18]),
        result=row[19],
        result_error=row[20],
        error=_error_from(row[21:24]),
        destination=row[24],
        resolved_by=row[25],
        evidence=row[26],
        late_result=row[27],
        late_attempt=row[28],
    )


def _request_columns(effect: EffectRow) -> Columns:
    """What a request sets; the columns stand in this order in every statement."""
    clock = effect.first_request
    return (
        effect.run_id,
        effect.key,
        effect.name,
        effect.operation_id,
        _text(effect.fingerprints),
        str(effect.policy),
        str(effect.state),
        effect.version,
        effect.generation,
        effect.requests,
        effect.open_requests,
        _text(effect.executing),
        effect.attempt,
        *((clock.wall, clock.boot, clock.boot_id) if clock else (None, None, None)),
        effect.started_at,
    )


def effect_insert(effect: EffectRow) -> Columns:
    """What there is of an effect whose first request is about to be made."""
    return (*_request_columns(effect), effect.destination)


def effect_completion(effect: EffectRow) -> Columns:
    """What changes when a request returns in time."""
    return (
        effect.version,
        _text(effect.executing),
        effect.finished_at,
        effect.result,
        effect.result_error,
        effect.run_id,
        effect.key,
    )


def effect_columns(effect: EffectRow) -> Columns:
    return (
        *_request_columns(effect),
        effect.finished_at,
        effect.final,
        effect.result,
        effect.result_error,
        *_error_columns(effect.error),
        effect.destination,
        effect.resolved_by,
        effect.evidence,
        effect.late_result,
        effect.late_attempt,
    )


def _request_clock(wall: float | None, boot: float | None, boot_id: str | None) -> RequestClock | None:
    if wall is None and boot is None and boot_id is None:
        return None
    if wall is None or boot is None or boot_id is None:
        raise ValueError("a part of the time of its first request is missing")
    return RequestClock(wall, boot, boot_id)


def key_from(row: Sequence[Any]) -> KeyRow:
    """An idempotency key's runs and fingerprints; ``row`` begins with scope and key."""
    try:
        _fingerprints(row[3])
        return KeyRow(_keys(row[2]), row[3])
    except ValueError as error:
        raise StoreError(
            f"idempotency key {row[1]!r} of {row[0]} is damaged in the store: {error}"
        ) from error


def key_insert(new: tuple[IdempotencyKey, KeyRow]) -> Columns:
    (scope, key), row = new
    return (scope, key, _text(row.run_ids), row.fingerprints)


def subscription_insert(s: c.Subscription) -> Columns:
    return (s.event, s.task, s.parameter, s.concurrency_key, _text(s.aliases))


def subscription_from(row: Sequence[Any]) -> c.Subscription:
    event, task, parameter, concurrency_key, aliases = row
    return c.Subscription(event, task, parameter, concurrency_key, names_from(aliases))


def names_from(text: str) -> tuple[str, ...]:
    """The tasks that a worker or a subscriber reported.

    Empty where that is damaged, as the next report replaces it.
    """
    try:
        return _keys(text)
    except ValueError:
        return ()


def _error_from(columns: Sequence[Any]) -> ErrorInfo | None:
    return None if columns[0] is None else ErrorInfo(columns[0], columns[1], columns[2])


def _error_columns(error: ErrorInfo | None) -> Columns:
    return (None, None, None) if error is None else (error.type, error.message, error.traceback)
