"""The command line: ``effectlog``, and ``python -m effectlog``.

Every command is a thin program on the public face. Exit status: 0, 1 (it failed; one line on standard
error), 2 (it was called wrongly).
"""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from effectlog.cli.backup import backup
from effectlog.cli.cancel import cancel
from effectlog.cli.check_store import check_store
from effectlog.cli.demo import demo
from effectlog.cli.doctor import doctor
from effectlog.cli.emit import emit
from effectlog.cli.enqueue import enqueue
from effectlog.cli.migrate import migrate
from effectlog.cli.options import Failure
from effectlog.cli.purge import purge
from effectlog.cli.resolve import resolve
from effectlog.cli.retry import retry
from effectlog.cli.runs import runs
from effectlog.cli.show import show
from effectlog.cli.worker import worker
from effectlog.errors import EffectLogError
from effectlog.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def _printable_usage() -> Iterator[None]:
    """Click shows its own errors by itself, with what was typed or pasted in them."""
    try:
        yield
    except click.ClickException as error:
        vars(error)["message"] = printable(error.message)  # Declared final, and read when it is shown.
        raise


class _Commands(click.Group):
    """A group whose failures are one line for people, never a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.commands)

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        with _printable_usage():
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with _printable_usage():
            return self._invoke(ctx)

    def _invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except (EffectLogError, TypeError) as error:
            raise Failure(str(error)) from error
        except asyncio.CancelledError as error:
            raise Failure("stopped by a signal") from error
        except Exception as error:
            raise Failure(f"{type(error).__name__}: {error}") from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="effectlog", prog_name="effectlog")
def command_line() -> None:
    """Durable tasks and journaled side effects for ordinary Python functions."""
    # What the log has to say while a command runs belongs to workers; here the command's own line says it.
    logging.getLogger("effectlog").addHandler(logging.NullHandler())


for _command in (
    demo,
    worker,
    enqueue,
    emit,
    runs,
    show,
    resolve,
    retry,
    cancel,
    purge,
    backup,
    migrate,
    doctor,
    check_store,
):
    command_line.add_command(_command)


def main() -> None:
    """Run the command line and end the process with its exit status."""
    try:
        command_line(prog_name="effectlog")
    except OSError as error:  # No command was reached: the help, or the version, could not be written.
        Failure(f"{type(error).__name__}: {error}").show()
        sys.exit(Failure.exit_code)
