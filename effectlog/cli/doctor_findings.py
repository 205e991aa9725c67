"""Which of doctor's facts need a person. Pure.

The one invariant: whatever is a problem says what to do about it, and what the workers will deal with by
themselves is not one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from effectlog.cli.tables import counted, shell_word, size, span
from effectlog.model import RunState

if TYPE_CHECKING:
    from effectlog.cli.health import Health, PendingFacts, WorkerFacts

_LATE = 60.0
"""Seconds for which a due run may wait before somebody should look why."""
_OLD_DOUBT = 3600.0
"""Seconds after which a doubt of a run that is not held will hardly answer itself."""
_LARGE_WAL = 256 * 1024 * 1024
_STEPPED = 60.0
"""Seconds by which a report may lie ahead of the wall clock before it counts as stepped back."""


def problems(found: Health, now: float) -> list[str]:
    """Everything that needs a person, in the order of urgency; ``now`` is the store's wall clock."""
    noted = [_held(found), _stuck(found), _unreadable(found), _dead_letters(found)]
    noted += [_pending(row, found, now) for row in found.pending]
    noted += [_worker(worker, found, now) for worker in found.alive]
    noted += [_wal(found), _doubt(found, now)]
    noted += [_transaction(row) for row in found.store.get("open_transactions", [])]
    return [problem for problem in noted if problem]


def _held(found: Health) -> str:
    count = found.states.get(RunState.HELD, 0)
    if not count:
        return ""
    show = f"effectlog show {shell_word(found.held[0])}"
    return f"{counted(count, 'run')} held for a decision: '{show}' says which"


def _dead_letters(found: Health) -> str:
    count = sum(found.dead_letters.values())
    if not count:
        return ""
    tasks = ", ".join(f"{task} ({number})" for task, number in found.dead_letters.items())
    return (
        f"{counted(count, 'dead letter')}: {tasks}: 'effectlog runs --state failed' shows why; mend the cause, "
        "then 'effectlog retry' them, or 'effectlog purge --state failed --older-than 0s' them"
    )


def _unreadable(found: Health) -> str:
    if not found.unreadable:
        return ""
    run = found.unreadable[0]
    message = run.error.message if run.error else ""
    return (
        f"{counted(len(found.unreadable), 'pending run')} can't go on in any worker that tried, such as "
        f"{run.id} of {run.task}: {message}"
    )


def _doubt(found: Health, now: float) -> str:
    """A doubt that no attempt answers, such as one of a run that has ended.

    Held runs have a line of their own.
    """
    if found.oldest_doubt_at is None or found.states.get(RunState.HELD):
        return ""
    age = now - found.oldest_doubt_at.timestamp()
    if age < _OLD_DOUBT:
        return ""
    return (
        f"an effect has been in doubt for {span(age)}: 'effectlog runs' notes it beside its run; resolve it"
    )


def _stuck(found: Health) -> str:
    if not found.stuck or found.working:
        return ""  # A live worker takes them over by itself.
    return f"{counted(len(found.stuck), 'run')} lost its owner and {_nobody(found)} to take over: start one"


def _nobody(found: Health) -> str:
    return "no worker that is alive gives a sign of life" if found.alive else "no worker is alive"


def _pending(row: PendingFacts, found: Health, now: float) -> str:
    what = f"{counted(row.count, 'pending run')} of {row.task}"
    if not found.working:
        return f"{what}, and {_nobody(found)}: start one" if row.due_at.timestamp() < now else ""
    if not row.known:
        if any(worker.silent and row.task in worker.tasks for worker in found.alive):
            return f"{what}, and no worker that knows it gives a sign of life: start one"
        advice = "start one that imports it, or give the renamed task aliases="
        return f"{what}, which no live worker knows: {advice}"
    if not _late(row, now) or row.executing or _full(found):
        return ""  # A queue before busy workers, or before a task's own limit, gets shorter by itself.
    late = span(now - row.due_at.timestamp())
    return f"{what} due for {late}, and nobody executes any, though a worker knows it"


def _worker(worker: WorkerFacts, found: Health, now: float) -> str:
    ahead = worker.reported_at.timestamp() - now
    if ahead > _STEPPED:
        return f"worker {worker.name} reported {span(ahead)} in the future: a wall clock was stepped back"
    if worker.silent:
        return _silent(worker, found, -ahead)
    if worker.cut_off:
        return (
            f"worker {worker.name} (pid {worker.pid} on {worker.host}) has no session with the server, so it "
            "claims no run and starts no effect: its log says why; free a connection for it "
            "(max_connections, its role's limit)"
        )
    waiting = any(row.task in worker.tasks and _late(row, now) for row in found.pending)
    looked = worker.claimed_at
    if waiting and not _full(found) and (looked is None or now - looked.timestamp() > _LATE):
        who = f"worker {worker.name} (pid {worker.pid} on {worker.host})"
        return f"{who} is alive but does not claim: restart it"
    return ""


def _silent(worker: WorkerFacts, found: Health, seconds: float) -> str:
    """Whoever is at work does without it, unless something waits that only the silent one knows."""
    missed = any(row.task in worker.tasks and not row.known for row in found.pending)
    if found.working and not missed:
        return ""
    return (
        f"worker {worker.name} (pid {worker.pid} on {worker.host}) gave its last sign of life "
        f"{span(max(0.0, seconds))} ago, and its process was not seen to end: it is stopped (SIGSTOP, a "
        "debugger, a paused machine) or its loop is blocked; let it go on, or kill it and start another"
    )


def _late(row: PendingFacts, now: float) -> bool:
    return now - row.due_at.timestamp() > _LATE


def _full(found: Health) -> bool:
    """Every place of every live worker is taken."""
    return found.states.get(RunState.RUNNING, 0) >= sum(worker.concurrency for worker in found.working)


def _wal(found: Health) -> str:
    wal = found.store.get("wal_bytes", 0)
    if not isinstance(wal, int) or wal < _LARGE_WAL:
        return ""
    return f"the write-ahead log takes {size(wal)}: some process keeps an old read transaction open; end it"


def _transaction(row: dict[str, Any]) -> str:
    who = f"pid {row['pid']}" + (f", {row['application']}" if row["application"] else "")
    return f"a transaction ({who}) has kept runs locked for {span(row['seconds'])}: end it"
