"""``demo``: kill a worker and count what is sent."""

from __future__ import annotations

import click

from effectlog.cli.options import Failure


@click.command()
def demo() -> None:
    """Kill a worker right after a charge was accepted, and see what is sent twice. Takes seconds."""
    from effectlog.demo import run_demo  # noqa: PLC0415 - nobody else needs it

    if not run_demo():
        raise Failure("the demo did not go as promised; see the counts above")
