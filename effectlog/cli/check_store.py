"""``check-store``: try every guarantee on a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from effectlog.cli.open_store import check, run
from effectlog.cli.options import Failure
from effectlog.cli.output import echo
from effectlog.cli.tables import counted
from effectlog.printable import one_line
from effectlog.store.resolve import resolve_store

if TYPE_CHECKING:
    from effectlog.store.protocol import Store


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
