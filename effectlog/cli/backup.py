"""``backup``: copy a store while it is in use."""

from __future__ import annotations

import click

from effectlog.cli.open_store import open_log, run
from effectlog.cli.options import store_option
from effectlog.cli.output import echo


@click.command()
@click.argument("file")
@store_option
def backup(file: str, store: str) -> None:
    """Copy an SQLite store into a new FILE while it is in use. PostgreSQL has tools of its own."""

    async def copy() -> None:
        async with open_log(store) as log:
            await log.backup(file)

    run(copy())
    echo(f"{file}: a whole store, which can be opened as it is")
