"""A statement that nobody uses rots, and a name that no file has fails only when it is needed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import effectlog.store
from effectlog.store.statements import statements

STORE = Path(effectlog.store.__file__).parent
DIALECTS = sorted(folder.name for folder in STORE.iterdir() if (folder / "queries.sql").exists())


def strings_in(dialect: str) -> set[str]:
    """Every string constant in the dialect's modules: statements are named by them."""
    files = (STORE / dialect).glob("*.py")
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def names_asked_for(dialect: str) -> set[str]:
    """The constants in ``SQL["name"]``."""
    found = set()
    for file in (STORE / dialect).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Subscript(value=ast.Name(id="SQL"), slice=ast.Constant(value=str(name))):
                    found.add(name)
                case ast.Call(func=ast.Attribute(attr="_rows"), args=[ast.Constant(value=str(name)), *_]):
                    found.add(name)
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_statement_is_used(dialect: str) -> None:
    strings = strings_in(dialect)
    # A name may be put together, as in "find_runs" + "_of_task".
    used = {name for name in statements(dialect) if name in strings or _stem(name) in strings}
    assert set(statements(dialect)) - used == set()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_name_that_code_asks_for_is_there(dialect: str) -> None:
    asked = names_asked_for(dialect)
    assert asked
    assert asked - set(statements(dialect)) == set()


def _stem(name: str) -> str:
    return re.split("_of_|_in_", name)[0]
