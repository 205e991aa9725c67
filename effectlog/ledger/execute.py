"""Executes one command against the pages of a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effectlog import commands as c
from effectlog.ledger import effects, runs

if TYPE_CHECKING:
    from effectlog.ledger.pages import Pages


def execute(pages: Pages, command: c.Command) -> c.Outcome:
    """Decide one command. Claims, upkeep and subscriptions are not decided by rows, so a store does those."""
    match command:
        case c.StartEffect():
            return effects.start(pages, command)
        case c.FinishEffect():
            return effects.finish(pages, command)
        case c.Renew():
            return runs.renew(pages, command)
        case c.EndAttempt():
            return runs.end_attempt(pages, command)
        case c.CreateRuns():
            return runs.create(pages, command)
        case c.SettleEffect():
            return effects.settle(pages, command)
        case c.CancelRun():
            return runs.cancel(pages, command)
        case c.RetryRun():
            return runs.retry(pages, command)
        case c.MarkReleasing():
            return runs.mark_releasing(pages, command)
        case c.NoteTrace():
            return runs.note_trace(pages, command)
        case _:
            raise TypeError(f"{type(command).__name__} is not decided by the ledger")
