"""The one way to the terminal: what a command says passes here, and nothing in it can steer the terminal."""

from __future__ import annotations

from typing import IO, Any

import click

from effectlog.printable import printable


def echo(text: str, *, err: bool = False, file: IO[Any] | None = None) -> None:
    """Write text, and a line's end."""
    click.echo(printable(text), err=err, file=file)


def progress(text: str) -> None:
    """Show where it is, on standard error, in place of what was shown there before."""
    click.echo(f"\r{printable(text)}\r", nl=False, err=True)
