"""``resolve``, ``retry`` and ``cancel``: decisions about stored runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from effectlog.cli.loading import load
from effectlog.cli.opening import open_log, run
from effectlog.cli.options import Failure, filter_options, store_option
from effectlog.cli.output import echo
from effectlog.cli.text import counted
from effectlog.cli.values import json_value
from effectlog.errors import ActionRefused, EffectLogError
from effectlog.model import Applied, NotApplied, RunState
from effectlog.printable import one_line
from effectlog.store.protocol import RunFilter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from effectlog.log import EffectLog

    Action = Callable[[EffectLog, str, bool], Awaitable[str]]


@click.command()
@click.argument("run_id", metavar="RUN")
@click.argument("effect_key", metavar="KEY")
@click.option("--applied", metavar="JSON", help="It happened, with this result.")
@click.option("--not-applied", is_flag=True, help="It did not happen, so it may be sent.")
@click.option("--new-operation", is_flag=True, help="With --not-applied: send it under a new operation id.")
@click.option("--by", required=True, metavar="WHO", help="Who decides; stored with the answer.")
@click.option(
    "--module",
    "modules",
    multiple=True,
    metavar="MODULE",
    help="With --applied: import MODULE, which declares the effect, and check the result against it.",
)
@click.option("--evidence", metavar="TEXT", help="Why; stored with the answer.")
@click.option(
    "--if-requests", type=int, metavar="N", help="Only if there are N requests still, as when you looked."
)
@store_option
def resolve(
    run_id: str,
    effect_key: str,
    applied: str | None,
    not_applied: bool,
    new_operation: bool,
    by: str,
    modules: tuple[str, ...],
    evidence: str | None,
    if_requests: int | None,
    store: str,
) -> None:
    """Decide an effect in doubt; a held run then goes on by itself.

    A value given with --applied becomes what the effect's function is declared to return, if --module names
    the module that declares it; otherwise the worker converts it.
    """
    if (applied is None) is not not_applied:
        raise click.UsageError("say what happened: either --applied JSON or --not-applied")
    if new_operation and not not_applied:
        raise click.UsageError("--new-operation goes with --not-applied")
    # Never the module that the row names: whoever can write a row would choose what runs here.
    for module in modules:
        load(module)
    answer = NotApplied(new_operation) if applied is None else Applied(json_value(applied, "--applied"))

    async def decide() -> RunState:
        async with open_log(store) as log:
            await log.resolve(run_id, effect_key, answer, by=by, evidence=evidence, if_requests=if_requests)
            return (await log.administration.summary(run_id)).row.state

    state = run(decide())
    echo(f"{one_line(effect_key)}: {'not applied' if not_applied else 'applied'}; run {run_id} is {state}")


@click.command()
@click.argument("run_ids", metavar="[RUN]…", nargs=-1)
@filter_options
@click.option("--force", is_flag=True, help="Even against a live owner, who is fenced out first.")
@store_option
def retry(run_ids: tuple[str, ...], state: str | None, task: str | None, force: bool, store: str) -> None:
    """Give failed or cancelled runs another round of attempts; completed effects stay replayed."""
    _apply(_retry, "retried", run_ids, state, task, force=force, store=store)


async def _retry(log: EffectLog, run_id: str, force: bool) -> str:
    await log.administration.retry(run_id, force=force)
    return f"run {run_id} is pending again"


@click.command()
@click.argument("run_ids", metavar="[RUN]…", nargs=-1)
@filter_options
@click.option("--force", is_flag=True, help="At once, even while a live owner executes it.")
@store_option
def cancel(run_ids: tuple[str, ...], state: str | None, task: str | None, force: bool, store: str) -> None:
    """Cancel runs: waiting ones at once, running ones by asking their owner."""
    _apply(_cancel, "cancelled or asked to", run_ids, state, task, force=force, store=store)


async def _cancel(log: EffectLog, run_id: str, force: bool) -> str:
    moved = await log.administration.cancel(run_id, force=force)
    if not moved.changed:
        reason = f"it had ended before, {moved.state}"
        raise ActionRefused(f"run {run_id} is not cancelled: {reason}", run_id=run_id, reason=reason)
    if moved.state is RunState.RUNNING:
        return f"run {run_id} is asked to cancel; its owner hears it with its next effect or heartbeat"
    return f"run {run_id} is cancelled"


def _apply(
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
    """Every named run is tried; those that were refused are told together, as one failure."""
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
