"""``demo``, ``purge``, ``backup``, ``migrate``, ``doctor`` and ``check-store``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from effectlog.cli.examination import examine, report
from effectlog.cli.jsonable import dumps
from effectlog.cli.opening import check, open_log, open_to_read, run
from effectlog.cli.options import Failure, duration, json_option, store_option
from effectlog.cli.output import echo, progress
from effectlog.cli.text import counted
from effectlog.model import RunState
from effectlog.printable import one_line
from effectlog.store.resolve import resolve_store

if TYPE_CHECKING:
    from effectlog.store.protocol import Store

_ENDED = tuple(state for state in RunState if state.ended)


@click.command()
def demo() -> None:
    """Kill a worker right after a charge was accepted, and see what is sent twice. Takes seconds."""
    from effectlog.demo import run_demo  # noqa: PLC0415 - nobody else needs it

    if not run_demo():
        raise Failure("the demo did not go as promised; see the counts above")


@click.command()
@click.option("--older-than", required=True, metavar="D", help="Age since the end: 30d, 12h, 45m, 90s.")
@click.option(
    "--state", type=click.Choice([s.value for s in _ENDED]), metavar="S", help="Only runs that ended so."
)
@store_option
def purge(older_than: str, state: str | None, store: str) -> None:
    """Remove runs that ended long ago, each whole. Runs with an effect in doubt stay."""
    age = duration(older_than, "--older-than")
    states = _ENDED if state is None else (RunState(state),)

    async def remove() -> int:
        async with open_log(store) as log:
            return await log.administration.purge(age, states, _progress())

    count = run(remove())
    echo(f"{counted(count, 'run')} purged")


def _progress() -> Any:
    """A line that counts up, where somebody watches."""
    if not sys.stderr.isatty():
        return None
    return lambda count: progress(f"{counted(count, 'run')} so far")


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


@click.command()
@store_option
def migrate(store: str) -> None:
    """Make the store, or bring its schema up to date, and prove that it can be trusted."""

    async def bring_up_to_date() -> str:
        async with open_log(store, create=True) as log:
            return log.administration.engine.store.name

    echo(f"{run(bring_up_to_date())}: the schema is up to date")


@click.command()
@json_option
@store_option
def doctor(as_json: bool, store: str) -> None:
    """Say how store, workers and runs are. Exit status 1 if something needs a person."""

    async def look() -> Any:
        async with open_to_read(store) as log:
            return await examine(log.administration)

    found = run(look())
    echo(dumps(found) if as_json else report(found))
    if found.problems:
        raise Failure(f"{counted(len(found.problems), 'thing')} to look after: {'; '.join(found.problems)}")


@click.command(name="check-store")
@click.argument("url", required=False)
@click.option("--store", envvar="EFFECTLOG_STORE", metavar="URL", help="As URL.")
def check_store(url: str | None, store: str | None) -> None:
    """Try on the store every guarantee that effectlog needs. Takes seconds; leaves nothing behind."""
    address = url or store
    if address is None:
        raise click.UsageError("name the store: effectlog check-store URL")
    check(address, create=True)
    # The suite is for tests; no other command may need it.
    from effectlog.testing.conformance import check_store as try_guarantees  # noqa: PLC0415

    async def opened() -> Store:
        found: Store = resolve_store(address)
        await found.open()
        return found

    report = run(try_guarantees(opened))
    for name in report.passed:
        echo(f"given    {name}")
    for name, reason in report.skipped.items():
        echo(f"skipped  {name}: {one_line(reason)}")
    for failure in report.failed:
        echo(f"MISSING  {failure.name}: {one_line(failure.reason)}")
    echo(f"{report.store}: {counted(len(report.passed), 'guarantee')} given, {len(report.failed)} missing")
    if not report.ok:
        raise Failure(f"{report.store} lacks {', '.join(failure.name for failure in report.failed)}")
