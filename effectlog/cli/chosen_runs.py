"""What ``retry`` and ``cancel`` share: one action for each run that was named or chosen by a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from effectlog.cli.open_store import open_log, run
from effectlog.cli.options import Failure
from effectlog.cli.output import echo
from effectlog.cli.tables import counted
from effectlog.errors import EffectLogError
from effectlog.model import RunState
from effectlog.printable import one_line
from effectlog.store.protocol import RunFilter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from effectlog.log import EffectLog

    Action = Callable[[EffectLog, str, bool], Awaitable[str]]


def apply_to_runs(
    action: Action,
    done: str,
    run_ids: tuple[str, ...],
    state: str | None,
    task: str | None,
    *,
    force: bool,
    store: str,
) -> None:
    if bool(run_ids) == bool(state):
        raise click.UsageError("name runs, or choose them by --state (with --task for one task only)")
    if run_ids and task:
        raise click.UsageError("--task goes with --state")
    if state:
        run(_to_chosen(action, done, RunFilter(RunState(state), task), force=force, store=store))
    else:
        run(_to_named(action, run_ids, force=force, store=store))


async def _to_named(action: Action, run_ids: tuple[str, ...], *, force: bool, store: str) -> None:
    """Try every named run; report those that were refused together, as one failure."""
    refused: list[str] = []
    async with open_log(store) as log:
        for run_id in dict.fromkeys(run_ids):
            try:
                echo(await action(log, run_id, force))
            except EffectLogError as error:
                refused.append(str(error))
    if refused:
        raise Failure("; ".join(refused))


async def _to_chosen(action: Action, done: str, chosen: RunFilter, *, force: bool, store: str) -> None:
    """Whatever the filter finds is tried; what a live owner or another state prevents is passed over."""
    async with open_log(store) as log:

        async def act(run_id: str) -> None:
            echo(await action(log, run_id, force))

        changed, refused = await log.administration.each(chosen, act)
    for reason in refused.values():
        echo(f"skipped: {one_line(reason)}")
    skipped = f", {len(refused):,} skipped" if refused else ""
    echo(f"{counted(len(changed), 'run')} {done}{skipped}")
