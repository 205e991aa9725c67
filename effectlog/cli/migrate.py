"""``migrate``: make a store, or bring it up to date."""

from __future__ import annotations

import click

from effectlog.cli.open_store import open_log, run
from effectlog.cli.options import store_option
from effectlog.cli.output import echo


@click.command()
@store_option
def migrate(store: str) -> None:
    """Make the store, or bring its schema up to date, and prove that it can be trusted."""

    async def bring_up_to_date() -> str:
        async with open_log(store, create=True) as log:
            return log.administration.engine.store.name

    echo(f"{run(bring_up_to_date())}: the schema is up to date")
