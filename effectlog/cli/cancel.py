"""``cancel``: cancel runs, or ask their owners to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from effectlog.cli.chosen_runs import apply_to_runs
from effectlog.cli.options import filter_options, store_option
from effectlog.errors import ActionRefused
from effectlog.model import RunState

if TYPE_CHECKING:
    from effectlog.log import EffectLog


@click.command()
@click.argument("run_ids", metavar="[RUN]…", nargs=-1)
@filter_options
@click.option("--force", is_flag=True, help="At once, even while a live owner executes it.")
@store_option
def cancel(run_ids: tuple[str, ...], state: str | None, task: str | None, force: bool, store: str) -> None:
    """Cancel runs: waiting ones at once, running ones by asking their owner."""
    apply_to_runs(_cancel, "cancelled or asked to", run_ids, state, task, force=force, store=store)


async def _cancel(log: EffectLog, run_id: str, force: bool) -> str:
    moved = await log.administration.cancel(run_id, force=force)
    if not moved.changed:
        reason = f"it had ended before, {moved.state}"
        raise ActionRefused(f"run {run_id} is not cancelled: {reason}", run_id=run_id, reason=reason)
    if moved.state is RunState.RUNNING:
        return f"run {run_id} is asked to cancel; its owner hears it with its next effect or heartbeat"
    return f"run {run_id} is cancelled"
