"""``doctor``: reads the facts about store, workers and runs, has them judged, and shows them.

Writes nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from effectlog.cli.doctor_findings import problems
from effectlog.cli.health import Health, PendingFacts, WorkerFacts
from effectlog.cli.json_output import dumps
from effectlog.cli.open_store import open_to_read, run
from effectlog.cli.options import Failure, duration, json_option, store_option
from effectlog.cli.output import echo
from effectlog.cli.tables import Column, ago, counted, moment, size, table
from effectlog.cli.workers import known_tasks, workers_of
from effectlog.clock import utc
from effectlog.model import UNREADABLE_HERE, RunState
from effectlog.printable import one_line
from effectlog.runs.records import run_summary
from effectlog.store.protocol import CountsDeadLetters, RunFilter

if TYPE_CHECKING:
    from datetime import timedelta

    from effectlog.model import RunSummary
    from effectlog.runs.administration import Administration

_NEWEST = 500
"""Pending runs that are looked at one by one."""
_APART = frozenset({"states", "pending", "oldest_doubt_at", "clock", "without_session"})
_PENDING = (
    Column("PENDING TASK", flexible=True),
    Column("RUNS", right=True),
    Column("NEXT DUE", right=True),
    Column("A LIVE WORKER KNOWS IT"),
)
_WORKERS = (
    Column("WORKER", flexible=True),
    Column("PID", right=True),
    Column("ALIVE"),
    Column("REPORTED", right=True),
    Column("LOOKED FOR WORK", right=True),
    Column("TASKS", flexible=True),
)


async def examine(log: Administration, since: timedelta) -> Health:
    """Read the facts and judge them; a dead letter counts if it is not older than ``since``."""
    store = log.engine.store
    health: dict[str, Any] = await log.engine.read(store.health())
    lapsed = await log.engine.read(log.lapsed())
    workers = await workers_of(log, {run.owner for run in lapsed}, health.get("without_session", ()))
    known = known_tasks(worker for worker in workers if not worker.silent)
    pending = [
        PendingFacts(
            row["task"], row["count"], utc(row["due_at"]), row["task"] in known, await _executing(log, row)
        )
        for row in health["pending"]
    ]
    doubt = health["oldest_doubt_at"]
    found = Health(
        store={name: value for name, value in health.items() if name not in _APART},
        clock={"clock": health.get("clock"), "wall": utc(store.clock.wall())},
        states=health["states"],
        pending=tuple(pending),
        workers=workers,
        stuck=tuple(run.id for run in lapsed),
        held=tuple(run.row.id for run in await log.find(RunFilter(RunState.HELD))),
        oldest_doubt_at=None if doubt is None else utc(doubt),
        dead_letters=await _dead_letters(log, since),
        unreadable=await _unreadable(log),
    )
    found.problems.extend(problems(found, store.clock.wall()))
    return found


async def _dead_letters(log: Administration, since: timedelta) -> dict[str, int]:
    store = log.engine.store
    if not isinstance(store, CountsDeadLetters):
        return {}
    return await log.engine.read(store.dead_letters(store.clock.wall() - since.total_seconds()))


async def _unreadable(log: Administration) -> tuple[RunSummary, ...]:
    """The newest pending runs that were given back more than once for what their process does not know."""
    found = await log.find(RunFilter(RunState.PENDING, limit=_NEWEST))
    unreadable = [one for one in found if one.row.error and one.row.error.type == UNREADABLE_HERE]
    return tuple(run_summary(one) for one in unreadable if one.attempts > 1)


async def _executing(log: Administration, row: dict[str, Any]) -> bool:
    one = RunFilter(RunState.RUNNING, row["task"], limit=1)
    return bool(await log.find(one))


def report(found: Health) -> str:
    """All of it for people."""
    parts = [_facts(found.store | found.clock), _states(found.states)]
    if found.pending:
        parts.append(table(_PENDING, [_pending(row) for row in found.pending]))
    parts.append(table(_WORKERS, [_worker(row) for row in found.workers]) if found.workers else "no workers")
    if found.oldest_doubt_at is not None:
        parts.append(f"oldest doubt  {moment(found.oldest_doubt_at)} ({ago(found.oldest_doubt_at)})")
    parts.append(
        "\n".join(f"! {one_line(problem)}" for problem in found.problems) or "nothing needs a person"
    )
    return "\n\n".join(parts)


def _facts(facts: dict[str, Any]) -> str:
    wide = max(14, *(len(name) + 2 for name in facts))
    return "\n".join(f"{name.replace('_', ' '):<{wide}}{_fact(name, value)}" for name, value in facts.items())


def _fact(name: str, value: object) -> str:
    if isinstance(value, list):
        return f"{len(value):,}"
    if isinstance(value, int) and name.endswith("bytes"):
        return size(value)
    return moment(value) if isinstance(value, datetime) else one_line(value)


def _states(states: dict[str, int]) -> str:
    counts = [f"{state} {states.get(state, 0):,}" for state in RunState]
    return f"{'runs':<14}{' · '.join(counts)}"


def _pending(row: PendingFacts) -> tuple[object, ...]:
    return row.task, f"{row.count:,}", ago(row.due_at), "yes" if row.known else "no"


def _worker(worker: WorkerFacts) -> tuple[object, ...]:
    return (
        worker.name,
        worker.pid,
        ("silent" if worker.silent else "yes") if worker.alive else "no",
        ago(worker.reported_at),
        "never" if worker.claimed_at is None else ago(worker.claimed_at),
        ", ".join(worker.tasks),
    )


@click.command()
@click.option(
    "--since",
    default="7d",
    show_default=True,
    metavar="D",
    help="Dead letters count that are not older: 12h, 7d, 4w.",
)
@json_option
@store_option
def doctor(since: str, as_json: bool, store: str) -> None:
    """Say how store, workers and runs are. Exit status 1 if something needs a person."""
    recent = duration(since, "--since")

    async def look() -> Any:
        async with open_to_read(store) as log:
            return await examine(log.administration, recent)

    found = run(look())
    echo(dumps(found) if as_json else report(found))
    if found.problems:
        raise Failure(f"{counted(len(found.problems), 'thing')} to look after: {'; '.join(found.problems)}")
