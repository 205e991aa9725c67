"""``purge``: remove runs that ended long ago."""

from __future__ import annotations

import sys
from typing import Any

import click

from effectlog.cli.open_store import open_log, run
from effectlog.cli.options import duration, store_option
from effectlog.cli.output import echo, progress
from effectlog.cli.tables import counted
from effectlog.model import RunState

_ENDED = tuple(state for state in RunState if state.ended)


@click.command()
@click.option("--older-than", required=True, metavar="D", help="Age since the end: 30d, 12h, 45m, 90s.")
@click.option(
    "--state", type=click.Choice([s.value for s in _ENDED]), metavar="S", help="Only runs that ended so."
)
@store_option
def purge(older_than: str, state: str | None, store: str) -> None:
    """Remove runs that ended long ago, each whole. Runs with an effect in doubt stay."""
    age = duration(older_than, "--older-than")
    states = _ENDED if state is None else (RunState(state),)

    async def remove() -> int:
        async with open_log(store) as log:
            return await log.administration.purge(age, states, _progress())

    count = run(remove())
    echo(f"{counted(count, 'run')} purged")


def _progress() -> Any:
    """A line that counts up, where somebody watches."""
    if not sys.stderr.isatty():
        return None
    return lambda count: progress(f"{counted(count, 'run')} so far")
