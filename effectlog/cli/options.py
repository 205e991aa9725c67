"""What the commands' options mean: the store, states, durations. And how a failure is shown."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import timedelta
from typing import IO, TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from effectlog.cli.output import echo
from effectlog.cli.tables import shell_word
from effectlog.model import RunState
from effectlog.printable import one_line
from effectlog.store.resolve import sqlite_path
from effectlog.store.url import parse_url

if TYPE_CHECKING:
    from collections.abc import Callable

STATES = click.Choice([state.value for state in RunState])

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Failure(click.ClickException):
    """The command could not do what it was asked: one line on standard error, exit status 1."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the line."""
        echo(f"effectlog: {one_line(self.message)}", file=file, err=file is None)


def duration(text: str, name: str) -> timedelta:
    """A number with a unit: ``90s``, ``45m``, ``12h``, ``30d``, ``2w``; else a usage error."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text.strip())
    with suppress(OverflowError):
        if found is not None:
            return timedelta(**{_UNITS[found[2]]: float(found[1])})
    raise click.BadParameter(
        f"{text!r} is not a duration; write one as 90s, 45m, 12h, 30d or 2w", param_hint=name
    )


def store_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--store``, or the environment's EFFECTLOG_STORE."""
    return click.option(
        "--store",
        envvar="EFFECTLOG_STORE",
        show_envvar=True,
        required=True,
        metavar="URL",
        help="The store: a path (orders.db), sqlite:///orders.db or postgresql://…",
    )(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--json``: records for programs instead of text for people."""
    return click.option("--json", "as_json", is_flag=True, help="Print records as JSON, for programs.")(
        command
    )


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--state`` and ``--task``, which choose runs."""
    command = click.option("--task", metavar="T", help="Only runs of this task (its stored name).")(command)
    return click.option("--state", type=STATES, metavar="S", help="Only runs in this state.")(command)


def pasteable_store(ctx: click.Context, store: str) -> str:
    """The ``--store`` that a suggested command needs; nothing where the environment names the store."""
    if ctx.get_parameter_source("store") is not ParameterSource.COMMANDLINE:
        return ""
    # A password belongs neither on a screen nor in a shell's history.
    secret = sqlite_path(store) is None and parse_url(store).secrets
    return "" if secret else f" --store {shell_word(store)}"
