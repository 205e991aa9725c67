"""Danger: a new command or log line writes stored text to a terminal beside the places that make it printable."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "effectlog"
WRITERS = {"click.echo", "click.secho", "print", "sys.stdout.write", "sys.stderr.write"}


def calls_in(path: Path) -> list[ast.Call]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def test_every_command_speaks_through_one_function() -> None:
    for path in (PACKAGE / "cli").glob("*.py"):
        used = {ast.unparse(call.func) for call in calls_in(path)} & WRITERS
        assert not used or path.name == "output.py", f"{path.name}: use effectlog.cli.output.echo, not {used}"


def test_every_log_record_passes_the_one_logger() -> None:
    """``effectlog.user_warnings`` makes its records printable; a child of it would hand them on past that."""
    for path in PACKAGE.rglob("*.py"):
        for call in calls_in(path):
            if ast.unparse(call.func).endswith("getLogger"):
                assert [ast.unparse(name) for name in call.args] == ["'effectlog'"], path
