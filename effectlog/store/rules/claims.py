"""Which runs a claim may take: what is due, the room that limits leave, and how many suspects.

A search asks the store questions and decides by the answers, so that no dialect decides anything. What it
finds is a proposal: ``runs.claim`` takes what is still pending and due once its row is locked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from effectlog.store import commands as c

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from effectlog.store.rules.working_set import WorkingSet


class CountRunning(NamedTuple):
    """How many runs of these tasks are running? Answer: one row with the count."""

    names: tuple[str, ...]


class BusyKey(NamedTuple):
    """Which running runs of these tasks have the concurrency key of this run? Answer: any rows."""

    names: tuple[str, ...]
    run_id: str


class FindDue(NamedTuple):
    """Which pending runs of these tasks are due? Answer: candidates, the first ``limit`` of each task.

    With ``suspects`` also the first suspect of each task; without, none.
    """

    names: tuple[str, ...]
    limit: int
    suspects: bool


class FindDueKeyed(NamedTuple):
    """As ``FindDue``, but only the first run of each concurrency key, and none of a key that is busy.

    The limit is for all of the tasks together.
    """

    names: tuple[str, ...]
    limit: int
    suspects: bool


Question: TypeAlias = "CountRunning | BusyKey | FindDue | FindDueKeyed"
Row: TypeAlias = "Sequence[Any]"
"""A candidate is (run id, due_at, seq, crashes)."""
T = TypeVar("T")
Search: TypeAlias = "Generator[Question, Sequence[Row], T]"


def limited_names(commands: Iterable[c.Command]) -> set[str]:
    """The names of the tasks that have a limit, so that their claimers have to take turns."""
    return {
        name
        for command in commands
        if isinstance(command, c.Claim)
        for task in command.tasks
        if _limited(task)
        for name in task.names
    }


def _limited(task: c.TaskLimit) -> bool:
    return task.concurrency is not None or task.keyed


def candidates(command: c.Claim) -> Search[list[str]]:
    """Find the runs to claim, the longest due first: at most ``command.limit``, and one suspect.

    A claim that names its run is offered that run, or nothing where the limits of its task leave no room for
    it.
    """
    if command.run_id is not None:
        return [command.run_id] if (yield from _has_room(command, command.run_id)) else []
    free = tuple(name for task in command.tasks if not _limited(task) for name in task.names)
    found = yield from _due(command, free, command.limit)
    for task in command.tasks:
        if _limited(task):
            found += yield from _due_within_limits(command, task)
    found.sort(key=_due_order)
    suspects = [row for row in found if row[3] >= c.SUSPECT_CRASHES]
    return [row[0] for row in found if row not in suspects[1:]][: command.limit]


def _due_order(row: Row) -> tuple[float, int]:
    _, due_at, seq, _ = row
    return due_at, seq


def _has_room(command: c.Claim, run_id: str) -> Search[bool]:
    for task in command.tasks:
        if (yield from _room(task, 1)) < 1:
            return False
        if task.keyed and (yield BusyKey(task.names, run_id)):
            return False
    return True


def _room(task: c.TaskLimit, wanted: int) -> Search[int]:
    """How many of ``wanted`` runs the task's limit lets start beside those that are running."""
    if task.concurrency is None:
        return wanted
    ((running,),) = yield CountRunning(task.names)
    return min(wanted, task.concurrency - int(running))


def _due_within_limits(command: c.Claim, task: c.TaskLimit) -> Search[list[Row]]:
    room = yield from _room(task, command.limit)
    if room > 0 and task.keyed:
        return list((yield FindDueKeyed(task.names, room, command.suspects)))
    return (yield from _due(command, task.names, room))


def _due(command: c.Claim, names: tuple[str, ...], limit: int) -> Search[list[Row]]:
    """The first of all these tasks together: each was asked for as many."""
    if not names or limit <= 0:
        return []
    found = yield FindDue(names, limit, command.suspects)
    return sorted(found, key=_due_order)[:limit]


def give_up_damaged(working_set: WorkingSet, run_id: str, error: Exception) -> str:
    """Forget what was decided of a run whose row the database refuses to write, and return why it fails.

    It is claimed apart from the others then, and failed by a statement of its own, so that it keeps none of
    them waiting. The transaction is back where it was before this run was looked at.
    """
    forget_claim(working_set, (run_id,))
    return f"the row of run {run_id} is damaged in the store: {error}"


def forget_claim(working_set: WorkingSet, run_ids: Iterable[str]) -> None:
    """Forget a claim that was rolled back: its rows, and all that it was going to write."""
    for run_id in run_ids:
        working_set.runs.pop(run_id, None)
    working_set.clear_changes()
