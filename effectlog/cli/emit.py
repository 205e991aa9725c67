"""``emit``: make a run for each task that subscribes to an event."""

from __future__ import annotations

import click

from effectlog.cli.arguments import json_value
from effectlog.cli.enqueue import print_made
from effectlog.cli.open_store import open_log, run
from effectlog.cli.options import json_option, store_option


@click.command()
@click.argument("event")
@click.argument("payload", metavar="PAYLOAD_JSON")
@click.option(
    "--key", metavar="K", help="Idempotency key: one set of runs per key, however often it is emitted."
)
@json_option
@store_option
def emit(event: str, payload: str, key: str | None, as_json: bool, store: str) -> None:
    """Make one run for each task subscribed to EVENT and print their ids."""
    value = json_value(payload, "PAYLOAD_JSON")

    async def make() -> None:
        async with open_log(store) as log:
            await print_made(
                await log.emit(event, value, idempotency_key=key), key, as_json=as_json, many=True
            )

    run(make())
