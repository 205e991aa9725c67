"""Traces of the explorer, played against a real store: it must answer and hold what the rules said.

Many traces are played beside each other, each with a run of its own, so that one batch holds commands of hundreds of
runs, and several of the same run where no time passes between them.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

from exploration.production import (
    IDENTITY,
    RUN,
    Due,
    Lapse,
    NewRun,
    Purged,
    Rows,
    RunState,
    astuple,
    c,
    frozen_effect,
    outcome_key,
    plain,
    replace,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from exploration.production import StoredRun
    from exploration.search import Search

DEAD_LETTER = (("a dead letter's", "on_dead run"),)
LONG = 100_000.0
"""Seconds of a lease, and of a delay, that don't pass while a trace is played."""

_BATCH = 250


class Step(NamedTuple):
    command: Any
    outcome: Any
    rows: Rows


Trace = tuple[Step, ...]


def sampled(search: Search, count: int, seed: int = 13) -> list[Trace]:
    """The shortest trace to each kind of change, and others by chance, ``count`` in all at most."""
    worlds = list(search.parents)
    chance = random.Random(seed)
    traces = {
        (*search.commands(world), command): None for world, command in list(search.kinds.values())[:count]
    }
    while len(traces) < min(count, len(worlds)):
        traces[tuple(search.commands(chance.choice(worlds)))] = None
        count -= 1
    return [_steps(search, commands) for commands in traces if commands]


def _steps(search: Search, commands: Iterable[int]) -> Trace:
    ledger = search.game.ledger
    rows, steps = ledger.start, []
    for command in commands:
        rows, outcome = ledger.apply(rows, command)
        steps.append(
            Step(ledger.commands.things[command], ledger.outcomes.things[outcome], ledger.rows.things[rows])
        )
    return tuple(steps)


class Doors(NamedTuple):
    """What is needed of a real store."""

    apply: Callable[[list[Any]], Awaitable[list[Any]]]
    get: Callable[[str], Awaitable[StoredRun | None]]
    execute: Callable[[str, list[str]], Awaitable[None]]
    """Runs one of ``lapse`` and ``due`` for these runs, as time would."""
    wall: Callable[[], float]
    lease_now: Callable[[], float]


async def play(doors: Doors, traces: list[Trace], *, batched: bool, name: str) -> list[str]:
    """Play all traces side by side; what the store answered or holds otherwise than the rules said.

    ``batched``: commands between which no time passes share a batch.
    """
    runs = [f"{name} {number}" for number in range(len(traces))]
    for some in _shares([_creation(run) for run in runs]):
        await doors.apply(some)
    wrong: list[str] = []
    places = [0] * len(traces)
    while any(place < len(trace) for place, trace in zip(places, traces, strict=True)):
        await _let_time_pass(doors, runs, traces, places)
        batch: list[Any] = []
        parts: list[tuple[int, list[Step]]] = []
        for number, trace in enumerate(traces):
            part = _part(trace[places[number] :], 100 if batched else 1)
            parts.append((number, part))
            places[number] += len(part)
            batch += [_for_run(step.command, runs[number]) for step in part]
        outcomes = iter([outcome for some in _shares(batch) for outcome in await doors.apply(some)])
        for number, part in parts:
            for step in part:
                told = _told(next(outcomes))
                if told != _expected(step):
                    wrong.append(
                        f"{runs[number]}: {step.command}\n  rules: {_expected(step)}\n  store: {told}"
                    )
    for run, trace in zip(runs, traces, strict=True):
        stored = await doors.get(run)
        rows = Rows(None, None, (), ()) if stored is None else _rows(stored, doors)
        if await doors.get(f"dead letter of {run}") is not None:
            rows = rows._replace(children=DEAD_LETTER)
        children = DEAD_LETTER if set(trace[-1].rows.children) - {IDENTITY} else ()
        if rows != trace[-1].rows._replace(children=children):
            wrong.append(
                f"{run} after {[s.command for s in trace]}:\n  rules: {trace[-1].rows}\n  store: {rows}"
            )
    return wrong


def _shares(batch: list[Any]) -> list[list[Any]]:
    """Batches as large as those of a busy engine."""
    return [batch[at : at + _BATCH] for at in range(0, len(batch), _BATCH)]


async def _let_time_pass(doors: Doors, runs: list[str], traces: list[Trace], places: list[int]) -> None:
    for kind, name in ((Lapse, "lapse"), (Due, "due")):
        waiting = [
            n
            for n, trace in enumerate(traces)
            if places[n] < len(trace) and isinstance(trace[places[n]].command, kind)
        ]
        if waiting:
            await doors.execute(name, [runs[n] for n in waiting])
        for n in waiting:
            places[n] += 1


def _part(steps: Trace, most: int) -> list[Step]:
    part: list[Step] = []
    for step in steps[:most]:
        if isinstance(step.command, Lapse | Due):
            break
        part.append(step)
        if isinstance(step.command, Purged):
            break
    return part


def _creation(run: str) -> c.CreateRuns:
    return c.CreateRuns((NewRun(run, "task", b"[]"),), IDENTITY[0], f"key of {run}")


def _for_run(command: Any, run: str) -> Any:
    """The command of a trace as it is sent for one run of the real store."""
    if isinstance(command, Purged):
        states = tuple(state for state in RunState if state.ended)
        return c.Purge(0.0, states, 10, run_ids=(run,))
    fields: dict[str, Any] = {}
    if getattr(command, "fence", None) is not None:
        fields["fence"] = replace(command.fence, run_id=run)
    if hasattr(command, "run_id"):
        fields["run_id"] = run
    if isinstance(command, c.Claim):
        fields["lease"] = LONG
    if isinstance(command, c.EndAttempt):
        fields["delay"] = command.delay * LONG
        if command.on_dead is not None:
            key = (command.on_dead.idempotency_key or "").replace(RUN, run)
            fields["on_dead"] = replace(
                command.on_dead, id=f"dead letter of {run}", idempotency_key=key, parent_id=run
            )
    return replace(command, **fields)


def _expected(step: Step) -> Any:
    if isinstance(step.command, Purged):
        return ("purged", 1)
    return step.outcome


def _told(outcome: Any) -> Any:
    match outcome:
        case c.Claimed(claimed):
            return ("claimed", len(claimed))
        case c.Purged(count):
            return ("purged", count)
        case c.EffectStored(row, late):
            return outcome_key(c.EffectStored(_timeless(row), late))
        case c.Refused(reason, state, row):
            return outcome_key(c.Refused(reason, state, None if row is None else _timeless(row)))
        case _:
            return outcome_key(outcome)


def _timeless(row: Any) -> Any:
    """A row of the real store as the explorer has it."""
    finished = None if row.finished_at is None else 0.0
    return replace(row, run_id=RUN, started_at=0.0, finished_at=finished, error=plain(row.error))


def _rows(stored: StoredRun, doors: Doors) -> Rows:
    row = replace(
        stored.row,
        id=RUN,
        result=None,
        waits_since=None,
        due_at=1.0 if stored.row.due_at > doors.wall() + 1000 else 0.0,
        lease_expires=1.0 if stored.row.lease_expires > doors.lease_now() + 1000 else 0.0,
        lease_clock="clock" if stored.row.lease_clock else "",
        finished_at=None if stored.row.finished_at is None else 0.0,
        error=plain(stored.row.error),
    )
    attempts = tuple((attempt.number, attempt.owner, attempt.outcome) for attempt in stored.attempts)
    effects = tuple(frozen_effect(_timeless(effect)) for effect in stored.effects)
    return Rows(astuple(row), stored.result, attempts, effects)
