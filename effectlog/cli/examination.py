"""What ``doctor`` finds: facts about store, workers and runs, and which of them need a person.

Reads only. The one invariant: whatever is a problem says what to do about it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from effectlog.cli.crew import WorkerFacts, crew, known_tasks
from effectlog.cli.text import Column, ago, counted, moment, size, span, table
from effectlog.clock import utc
from effectlog.model import RunState
from effectlog.store.protocol import RunFilter

if TYPE_CHECKING:
    from effectlog.administration import Administration
    from effectlog.rows import RunRow

_LATE = 60.0
"""Seconds for which a due run may wait before somebody should look why."""
_OLD_DOUBT = 3600.0
"""Seconds after which a doubt of a run that is not held will hardly answer itself."""
_LARGE_WAL = 256 * 1024 * 1024
_STEPPED = 60.0
"""Seconds by which a report may lie ahead of the wall clock before it counts as stepped back."""


@dataclass(frozen=True, slots=True)
class PendingFacts:
    """The pending runs of one task; ``known`` says that a live worker can execute it."""

    task: str
    count: int
    due_at: datetime
    known: bool


@dataclass(frozen=True, slots=True)
class Examination:
    """Everything ``doctor`` prints; ``problems`` need a person."""

    store: dict[str, Any]
    clock: dict[str, Any]
    states: dict[str, int]
    pending: tuple[PendingFacts, ...]
    workers: tuple[WorkerFacts, ...]
    stuck: tuple[str, ...]
    held: tuple[str, ...]
    oldest_doubt_at: datetime | None
    problems: list[str] = field(default_factory=list)

    def text(self) -> str:
        """All of it for people."""
        parts = [_facts(self.store | self.clock), _states(self.states)]
        if self.pending:
            parts.append(table(_PENDING, [_pending(row) for row in self.pending]))
        parts.append(
            table(_WORKERS, [_worker(row) for row in self.workers]) if self.workers else "no workers"
        )
        if self.oldest_doubt_at is not None:
            parts.append(f"oldest doubt  {moment(self.oldest_doubt_at)} ({ago(self.oldest_doubt_at)})")
        parts.append("\n".join(f"! {problem}" for problem in self.problems) or "nothing needs a person")
        return "\n\n".join(parts)


async def examine(log: Administration) -> Examination:
    """Read the facts and judge them."""
    store = log.engine.store
    health = await log.engine.read(store.health())
    workers = await crew(log)
    lapsed = await log.engine.read(log.lapsed())
    held = await log.engine.read(store.find(RunFilter(RunState.HELD)))
    facts = {name: value for name, value in health.items() if name not in _APART}
    doubt: Any = health["oldest_doubt_at"]
    found = Examination(
        store=facts,
        clock={"clock": health.get("clock"), "wall": utc(store.clock.wall())},
        states=dict(_mapping(health["states"])),
        pending=_pending_facts(health["pending"], workers),
        workers=workers,
        stuck=tuple(run.id for run in lapsed),
        held=tuple(run.row.id for run in held),
        oldest_doubt_at=None if doubt is None else utc(doubt),
    )
    found.problems.extend(_problems(found, lapsed, store.clock.wall()))
    return found


_APART = frozenset({"states", "pending", "oldest_doubt_at", "clock"})


def _mapping(value: object) -> dict[str, int]:
    return value if isinstance(value, dict) else {}


def _pending_facts(rows: object, workers: tuple[WorkerFacts, ...]) -> tuple[PendingFacts, ...]:
    known = known_tasks(workers)
    listed = rows if isinstance(rows, list) else []
    return tuple(
        PendingFacts(row["task"], row["count"], utc(row["due_at"]), row["task"] in known) for row in listed
    )


# --- judging -------------------------------------------------------------------------------------


def _problems(found: Examination, lapsed: list[RunRow], now: float) -> list[str]:
    alive = [worker for worker in found.workers if worker.alive]
    problems = [_held_problem(found), _lapsed_problem(lapsed, alive)]
    problems += [_pending_problem(row, alive, now) for row in found.pending]
    problems += [_worker_problem(worker, found, now) for worker in found.workers]
    problems += [_wal_problem(found), _doubt_problem(found, now)]
    problems += [_transaction_problem(row) for row in found.store.get("open_transactions", [])]
    return [problem for problem in problems if problem]


def _held_problem(found: Examination) -> str:
    count = found.states.get(RunState.HELD, 0)
    if not count:
        return ""
    return f"{counted(count, 'run')} held for a decision: 'effectlog show {found.held[0]}' says which"


def _doubt_problem(found: Examination, now: float) -> str:
    """A doubt that no attempt answers, such as one of a run that has ended; held ones are told apart."""
    if found.oldest_doubt_at is None or found.states.get(RunState.HELD):
        return ""
    age = now - found.oldest_doubt_at.timestamp()
    if age < _OLD_DOUBT:
        return ""
    return (
        f"an effect has been in doubt for {span(age)}: 'effectlog runs' notes it beside its run; resolve it"
    )


def _lapsed_problem(lapsed: list[RunRow], alive: list[WorkerFacts]) -> str:
    if not lapsed or alive:
        return ""  # A live worker takes them over by itself.
    return f"{counted(len(lapsed), 'run')} lost its owner and no worker is alive to take over: start one"


def _pending_problem(row: PendingFacts, alive: list[WorkerFacts], now: float) -> str:
    late = now - row.due_at.timestamp()
    what = f"{counted(row.count, 'pending run')} of {row.task}"
    if not alive:
        return f"{what}, and no worker is alive: start one" if late > 0 else ""
    if not row.known:
        return f"{what}, which no live worker knows: start one that imports it, or give the renamed task aliases="
    return f"{what} due for {span(late)}, though a live worker knows the task" if late > _LATE else ""


def _worker_problem(worker: WorkerFacts, found: Examination, now: float) -> str:
    if not worker.alive:
        return ""
    ahead = worker.reported_at.timestamp() - now
    if ahead > _STEPPED:
        return f"worker {worker.name} reported {span(ahead)} in the future: a wall clock was stepped"
    waiting = any(row.known and now - row.due_at.timestamp() > _LATE for row in found.pending)
    claimed = worker.claimed_at
    if waiting and (claimed is None or now - claimed.timestamp() > _LATE):
        return f"worker {worker.name} (pid {worker.pid} on {worker.host}) is alive but does not claim"
    return ""


def _wal_problem(found: Examination) -> str:
    wal = found.store.get("wal_bytes", 0)
    if not isinstance(wal, int) or wal < _LARGE_WAL:
        return ""
    return f"the write-ahead log takes {size(wal)}: some process keeps an old read transaction open"


def _transaction_problem(row: dict[str, Any]) -> str:
    who = f"pid {row['pid']}" + (f", {row['application']}" if row["application"] else "")
    return f"a transaction ({who}) has kept runs locked for {span(row['seconds'])}: end it"


# --- showing -------------------------------------------------------------------------------------

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


def _facts(facts: dict[str, Any]) -> str:
    return "\n".join(f"{name.replace('_', ' '):<14}{_fact(name, value)}" for name, value in facts.items())


def _fact(name: str, value: object) -> str:
    if isinstance(value, list):
        return f"{len(value):,}"
    if isinstance(value, int) and name.endswith("bytes"):
        return size(value)
    return moment(value) if isinstance(value, datetime) else str(value)


def _states(states: dict[str, int]) -> str:
    counts = [f"{state} {states.get(state, 0):,}" for state in RunState]
    return f"{'runs':<14}{' · '.join(counts)}"


def _pending(row: PendingFacts) -> tuple[object, ...]:
    return row.task, f"{row.count:,}", ago(row.due_at), "yes" if row.known else "no"


def _worker(worker: WorkerFacts) -> tuple[object, ...]:
    return (
        worker.name,
        worker.pid,
        "yes" if worker.alive else "no",
        ago(worker.reported_at),
        "never" if worker.claimed_at is None else ago(worker.claimed_at),
        ", ".join(worker.tasks),
    )
