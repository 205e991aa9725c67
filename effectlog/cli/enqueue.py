"""``enqueue``: make a run of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from effectlog.cli.arguments import call_arguments, json_arguments
from effectlog.cli.json_output import dumps
from effectlog.cli.loading import find_task
from effectlog.cli.open_store import open_log, run
from effectlog.cli.options import json_option, store_option
from effectlog.cli.output import echo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from effectlog.runs.run import Run


@click.command()
@click.argument("task", metavar="MODULE:TASK")
@click.argument("arguments", metavar="[ARGS_JSON]", default="[]")
@click.option("--key", metavar="K", help="Idempotency key: one run per key, however often it is enqueued.")
@json_option
@store_option
def enqueue(task: str, arguments: str, key: str | None, as_json: bool, store: str) -> None:
    """Make a run of a task and print its id.

    ARGS_JSON is an array of positional or an object of keyword arguments; dates, UUIDs, dataclasses and
    the like are given as JSON and become what the parameter is declared to be.
    """
    given = json_arguments(arguments, "ARGS_JSON")
    found = find_task(task)
    args, kwargs = call_arguments(found, given)

    async def make() -> None:
        async with open_log(store, create=True) as log:
            made = await log.enqueue(found.with_options(idempotency_key=key), *args, **kwargs)
            await print_made([made], key, as_json=as_json)

    run(make())


async def print_made(runs: Sequence[Run[Any]], key: str | None, *, as_json: bool, many: bool = False) -> None:
    if as_json:
        records = [await made.record() for made in runs]
        echo(dumps(records if many else records[0]))
    else:
        for made in runs:
            echo(made.id)
    if not all(made.created for made in runs):
        echo(f"effectlog: key {key!r} had its run already; nothing was added", err=True)
