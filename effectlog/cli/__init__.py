"""The command line: one file a command; ``main`` puts them together."""

from effectlog.cli.main import main

__all__ = ["main"]
