"""``runs`` and ``show``: what is stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from effectlog.cli.crew import crew, known_tasks
from effectlog.cli.details import described
from effectlog.cli.jsonable import dumps
from effectlog.cli.opening import open_log, run
from effectlog.cli.options import filter_options, json_option, pasteable_store, store_option
from effectlog.cli.text import Column, ago, span, table
from effectlog.model import RunState

if TYPE_CHECKING:
    from effectlog.cli.health import WorkerFacts
    from effectlog.model import RunRecord

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
    "--limit", type=click.IntRange(1), default=100, show_default=True, metavar="N", help="At most so many."
)
@click.option("--before", metavar="RUN", help="Only runs made before this one: the next page.")
@json_option
@store_option
def runs(
    state: str | None, task: str | None, limit: int, before: str | None, as_json: bool, store: str
) -> None:
    """List runs, newest first, with their attempts and the requests that their effects made."""

    async def look() -> tuple[list[RunRecord], tuple[WorkerFacts, ...]]:
        async with open_log(store) as log:
            found = await log.list_runs(state=state, task=task, limit=limit, before=before)
            return found, await crew(log.administration)

    found, workers = run(look())
    if as_json:
        click.echo(dumps(found))
        return
    click.echo(
        table(_COLUMNS, [_row(record, known_tasks(workers)) for record in found]) if found else "no runs"
    )
    if len(found) == limit:
        click.echo(f"{limit} runs shown; for older ones: effectlog runs --before {found[-1].id}", err=True)


def _row(record: RunRecord, known: frozenset[str]) -> tuple[object, ...]:
    requests = sum(effect.requests for effect in record.effects)
    return (
        record.id,
        record.state,
        record.task,
        span((datetime.now(UTC) - record.created_at) // _SECOND),
        len(record.attempts),
        requests,
        _note(record, known),
    )


def _note(record: RunRecord, known: frozenset[str]) -> str:
    doubts = [effect.key for effect in record.effects if effect.in_doubt]
    if doubts:
        return f"in doubt: {', '.join(doubts)}"
    error = "" if record.error is None else f"{record.error.type}: {record.error.message}"
    if record.state is RunState.PENDING:
        when = f"due {ago(record.due_at)}" if record.task in known else "no worker knows it"
        return f"{when}, after {error}" if error else when
    return error


@click.command()
@click.argument("run_id", metavar="RUN")
@json_option
@store_option
@click.pass_context
def show(ctx: click.Context, run_id: str, as_json: bool, store: str) -> None:
    """Show one run: attempts, effects, and for each doubt what is known and the commands that decide it."""

    async def look() -> str:
        async with open_log(store) as log:
            stored = await log.administration.stored(run_id)
            (record,) = await log.administration.records([stored])
            if as_json:
                return dumps(record)
            clock = log.administration.engine.store.clock
            return described(record, stored, clock, pasteable_store(ctx, store))

    click.echo(run(look()))
