"""``show``: one run as text for people: what it is, its attempts, its effects, and what to decide."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from effectlog.cli.doubt_details import Doubt, doubt_lines
from effectlog.cli.json_output import dumps, jsonable
from effectlog.cli.open_store import open_to_read, run
from effectlog.cli.options import json_option, pasteable_store, store_option
from effectlog.cli.output import echo
from effectlog.cli.tables import Column, ago, moment, shell_word, shortened, span, table, width
from effectlog.printable import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from effectlog.clock import Clock
    from effectlog.model import AttemptRecord, EffectRecord, ErrorInfo, RunRecord
    from effectlog.store.rows import StoredRun

_ATTEMPTS = (
    Column("ATTEMPT", right=True),
    Column("OUTCOME"),
    Column("STARTED"),
    Column("TOOK", right=True),
    Column("WORKER", flexible=True),
    Column("ERROR", flexible=True),
)
_EFFECTS = (
    Column("EFFECT", flexible=True),
    Column("STATE"),
    Column("REQUESTS", right=True),
    Column("ATTEMPT", right=True),
    Column("FIRST REQUEST"),
    Column("RESULT OR ERROR", flexible=True),
)
_TRACEBACK_LINES = 20


def described(record: RunRecord, stored: StoredRun, clock: Clock, store: str) -> str:
    """The whole text; ``store`` is the option that the suggested commands need."""
    parts = ["\n".join(_head(record))]
    if record.attempts:
        parts.append(table(_ATTEMPTS, _attempts(record.attempts)))
    if record.effects:
        parts.append(table(_EFFECTS, [_effect(effect) for effect in record.effects]))
    parts += [block for effect in record.effects if (block := "\n".join(_notes(effect)))]
    rows = {row.key: row for row in stored.effects}
    doubts = [Doubt(record, effect, rows[effect.key]) for effect in record.effects if effect.in_doubt]
    parts += ["\n".join(doubt_lines(doubt, clock, store)) for doubt in doubts]
    if record.error is not None and record.error.traceback:
        parts.append("\n".join(_traceback(record.error)))
    if record.dead_letter and not doubts:
        parts.append(f"for another round of attempts:\n    effectlog retry {shell_word(record.id)}{store}")
    return "\n\n".join(parts)


def _head(record: RunRecord) -> Iterator[str]:
    facts: list[tuple[str, Any]] = [
        ("run", record.id),
        ("task", record.task),
        ("state", record.state + (" (a dead letter)" if record.dead_letter else "")),
        ("args", ", ".join(f"{name}={_shown(value)}" for name, value in jsonable(record)["args"].items())),
        ("result", _value(record.result) if record.state == "succeeded" else None),
        ("error", record.error and f"{record.error.type}: {record.error.message}"),
        ("key", record.idempotency_key),
        ("correlation", record.correlation_id),
        ("parent", record.parent_id),
        ("created", f"{moment(record.created_at)} ({ago(record.created_at)})"),
        ("due", f"{moment(record.due_at)} ({ago(record.due_at)})" if record.state == "pending" else None),
        ("finished", record.finished_at and f"{moment(record.finished_at)} ({ago(record.finished_at)})"),
    ]
    for name, fact in facts:
        if fact:
            yield f"{name:<12}{shortened(one_line(fact), 20 * width())}"


def _value(value: object) -> str:
    return _shown(jsonable(value))


def _shown(plain: object) -> str:
    return json.dumps(plain, ensure_ascii=False)


def _attempts(attempts: Sequence[AttemptRecord]) -> Iterator[tuple[object, ...]]:
    """One row for each, but for those in a row that were given back for one and the same reason."""
    for (outcome, error), group in groupby(attempts, lambda attempt: (attempt.outcome, attempt.error)):
        same = list(group)
        if outcome != "released" or error is None or len(same) == 1:
            yield from map(_attempt, same)
            continue
        first, last = same[0], same[-1]
        _, _, started, _, worker, reason = _attempt(last)
        yield f"{first.number}-{last.number}", f"released {len(same)} times", started, "", worker, reason


def _attempt(attempt: AttemptRecord) -> tuple[object, ...]:
    took = None if attempt.ended_at is None else (attempt.ended_at - attempt.started_at).total_seconds()
    error = attempt.error and f"{attempt.error.type}: {attempt.error.message}"
    return (
        attempt.number,
        attempt.outcome or "under way",
        moment(attempt.started_at),
        "" if took is None else span(took),
        attempt.worker,
        error,
    )


def _effect(effect: EffectRecord) -> tuple[object, ...]:
    state = "in doubt" if effect.in_doubt else str(effect.state) + (" for good" if effect.final else "")
    if effect.state == "completed":
        outcome = _value(effect.result)
    else:
        outcome = f"{effect.error.type}: {effect.error.message}" if effect.error else ""
    return (effect.key, state, effect.requests, effect.attempt, moment(effect.started_at), outcome)


def _notes(effect: EffectRecord) -> Iterator[str]:
    """Who decided an effect, and what was kept as evidence. A doubt tells its own."""
    if effect.in_doubt or not (effect.resolved_by or effect.evidence):
        return
    yield one_line(effect.key)
    if effect.resolved_by:
        yield f"  decided by  {one_line(effect.resolved_by)}"
    for line in (effect.evidence or "").splitlines():
        yield f"  evidence    {printable(line)}"


def _traceback(error: ErrorInfo) -> Iterator[str]:
    lines = error.traceback.rstrip().splitlines()
    if len(lines) > _TRACEBACK_LINES:
        yield f"… {len(lines) - _TRACEBACK_LINES} lines; all of them with --json"
    yield from (printable(line) for line in lines[-_TRACEBACK_LINES:])


@click.command()
@click.argument("run_id", metavar="RUN")
@json_option
@store_option
@click.pass_context
def show(ctx: click.Context, run_id: str, as_json: bool, store: str) -> None:
    """Show one run: attempts, effects, and for each doubt what is known and the commands that decide it."""

    async def look() -> str:
        async with open_to_read(store) as log:
            stored = await log.administration.stored(run_id)
            record = await log.administration.record_of(stored)
            if as_json:
                return dumps(record)
            clock = log.administration.engine.store.clock
            return described(record, stored, clock, pasteable_store(ctx, store))

    echo(run(look()))
