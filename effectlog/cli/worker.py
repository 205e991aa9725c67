"""``worker``: execute runs until told to stop."""

from __future__ import annotations

import logging
import signal

import click

from effectlog.cli.loading import load
from effectlog.cli.open_store import open_log, run
from effectlog.cli.options import store_option
from effectlog.cli.output import echo
from effectlog.decorators.registry import registered
from effectlog.errors import ConfigurationError


@click.command()
@click.argument("modules", metavar="MODULE…", nargs=-1, required=True)
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    metavar="N",
    help="Runs at a time.",
)
@click.option(
    "--lease",
    type=click.FloatRange(0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="S",
    help="Seconds for which a run is owned without a sign of life.",
)
@click.option(
    "--name", metavar="NAME", help="The worker's name in records; by default host, process and a suffix."
)
@store_option
def worker(modules: tuple[str, ...], concurrency: int, lease: float, name: str | None, store: str) -> None:
    """Execute runs of the tasks that the MODULEs declare.

    The first SIGTERM or SIGINT drains: nothing more is claimed, what runs is finished. The second
    releases what is left, for other workers to go on with.
    """
    for module in modules:
        load(module)
    tasks = sorted({spec.name for spec in registered().values()})
    if not tasks:
        raise ConfigurationError(f"{' and '.join(modules)}: no task is declared there; use @durable_task")
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("effectlog").setLevel(logging.INFO)

    async def serve() -> None:
        async with open_log(store, create=True, lease=lease) as log:
            serving = log.worker(concurrency=concurrency, name=name)
            where = log.administration.engine.store.name
            line = f"effectlog: worker {serving.name} serves {where}: {', '.join(tasks)}"
            await serving.serve(ready=lambda: echo(line, err=True))
        # All is closed, and whoever asks this process to end has what they want.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)

    run(serve())
