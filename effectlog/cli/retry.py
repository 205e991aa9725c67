"""``retry``: give runs another round of attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from effectlog.cli.chosen_runs import apply_to_runs
from effectlog.cli.options import filter_options, store_option

if TYPE_CHECKING:
    from effectlog.log import EffectLog


@click.command()
@click.argument("run_ids", metavar="[RUN]…", nargs=-1)
@filter_options
@click.option("--force", is_flag=True, help="Even against a live owner, who is fenced out first.")
@store_option
def retry(run_ids: tuple[str, ...], state: str | None, task: str | None, force: bool, store: str) -> None:
    """Give failed or cancelled runs another round of attempts; completed effects stay replayed."""
    apply_to_runs(_retry, "retried", run_ids, state, task, force=force, store=store)


async def _retry(log: EffectLog, run_id: str, force: bool) -> str:
    await log.administration.retry(run_id, force=force)
    return f"run {run_id} is pending again"
