"""``resolve``: decide an effect in doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from effectlog.cli.arguments import json_value
from effectlog.cli.loading import load
from effectlog.cli.open_store import open_log, run
from effectlog.cli.options import store_option
from effectlog.cli.output import echo
from effectlog.model import Applied, NotApplied, RunState
from effectlog.printable import one_line

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
