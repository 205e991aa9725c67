"""``runs``: list what is stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from effectlog.cli.json_output import dumps
from effectlog.cli.open_store import open_to_read, run
from effectlog.cli.options import filter_options, json_option, store_option
from effectlog.cli.output import echo
from effectlog.cli.tables import Column, ago, shell_word, span, table
from effectlog.cli.workers import known_tasks, workers_of
from effectlog.model import UNREADABLE_HERE, RunState
from effectlog.runs.operations import chosen
from effectlog.runs.records import doubts, run_summary

if TYPE_CHECKING:
    from effectlog.model import RunSummary
    from effectlog.store.rows import StoredSummary

_SECOND = timedelta(seconds=1)
_COLUMNS = (
    Column("RUN"),
    Column("STATE"),
    Column("TASK", flexible=True),
    Column("AGE", right=True),
    Column("ATT", right=True),
    Column("REQ", right=True),
    Column("NOTE", flexible=True),
)


@click.command()
@filter_options
@click.option(
    "--limit", type=click.IntRange(1), default=100, show_default=True, metavar="N", help="At most N runs."
)
@click.option("--before", metavar="RUN", help="Only runs made before this one: the next page.")
@json_option
@store_option
def runs(
    state: str | None, task: str | None, limit: int, before: str | None, as_json: bool, store: str
) -> None:
    """List runs, newest first, with their attempts and the requests that their effects made."""

    async def look() -> tuple[list[StoredSummary], frozenset[str], frozenset[str]]:
        async with open_to_read(store) as log:
            admin = log.administration
            found = await admin.find(chosen(state, task, before, limit))
            return (
                found,
                await admin.gone(listed.row for listed in found),
                known_tasks(await workers_of(admin)),
            )

    found, gone, known = run(look())
    if as_json:
        echo(dumps([run_summary(listed) for listed in found]))
        return
    rows = [_row(listed, known, owner_gone=listed.row.id in gone) for listed in found]
    echo(table(_COLUMNS, rows) if rows else "no runs")
    if len(found) == limit:
        echo(
            f"{limit} runs shown; for older ones: effectlog runs --before {shell_word(found[-1].row.id)}",
            err=True,
        )


def _row(listed: StoredSummary, known: frozenset[str], *, owner_gone: bool) -> tuple[object, ...]:
    summary = run_summary(listed)
    return (
        summary.id,
        summary.state,
        summary.task,
        span((datetime.now(UTC) - summary.created_at) // _SECOND),
        listed.attempts,
        listed.requests,
        _note(summary, doubts(listed, owner_gone=owner_gone), known),
    )


def _note(summary: RunSummary, in_doubt: list[str], known: frozenset[str]) -> str:
    if in_doubt:
        return f"in doubt: {', '.join(in_doubt)}"
    error = "" if summary.error is None else f"{summary.error.type}: {summary.error.message}"
    if summary.state is RunState.PENDING:
        if summary.error is not None and summary.error.type == UNREADABLE_HERE:
            return f"given back: {summary.error.message}"
        when = f"due {ago(summary.due_at)}" if summary.task in known else "no worker knows it"
        return f"{when}, after {error}" if error else when
    return error
