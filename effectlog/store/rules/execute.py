"""Executes one command against the working set of a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from effectlog.store import commands as c
from effectlog.store.rules import effects, runs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from effectlog.store.rules.working_set import WorkingSet

_RULES: Mapping[type, Callable[[WorkingSet, Any], c.Outcome]] = {
    c.StartEffect: effects.start,
    c.FinishEffect: effects.finish,
    c.Renew: runs.renew,
    c.EndAttempt: runs.end_attempt,
    c.CreateRuns: runs.create,
    c.SettleEffect: effects.settle,
    c.CancelRun: runs.cancel,
    c.RetryRun: runs.retry,
    c.MarkReleasing: runs.mark_releasing,
    c.NoteTrace: runs.note_trace,
}


def execute(working_set: WorkingSet, command: c.Command) -> c.Outcome:
    """Decide one command. Claims, upkeep and subscriptions are not decided by rows, so a store does those."""
    rule = _RULES.get(type(command))
    if rule is None:
        raise TypeError(f"{type(command).__name__} is not decided by the rules")
    return rule(working_set, command)
