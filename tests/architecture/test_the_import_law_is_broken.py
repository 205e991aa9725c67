"""Who may import whom: kept here, so that the flow stays decorator → journal → engine → store."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "effectlog"
MODULES = sorted(PACKAGE.rglob("*.py"))

ONLY_IN = {
    "aiosqlite": {"effectlog.store.sqlite"},
    "wrapt": {"effectlog.wrapping"},
    "opentelemetry": {"effectlog.telemetry"},
}
PURE = {"effectlog.journal", "effectlog.doubt"}
LEAVES = {
    "effectlog.model",
    "effectlog.rows",
    "effectlog.commands",
    "effectlog.errors",
    "effectlog.retry",
    "effectlog.checks",
    "effectlog.clock",
    "effectlog.contract",
    "effectlog.spec",
}
SCHEDULER = {
    "effectlog.worker",
    "effectlog.executor",
    "effectlog.log",
    "effectlog.inline",
    "effectlog.takeover",
}


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path, *, at_run_time: bool = False) -> set[str]:
    """The modules that a file imports; at run time without those under ``if TYPE_CHECKING``."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if at_run_time and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                for other in child.orelse:
                    visit(other)
                continue
            if isinstance(child, ast.Import):
                found.update(alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module:
                found.add(child.module)
                found.update(f"{child.module}.{alias.name}" for alias in child.names)
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


def known(names: set[str]) -> set[str]:
    return names & {name_of(path) for path in MODULES}


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_a_library_is_imported_in_its_one_place(library: str) -> None:
    users = {
        name_of(path)
        for path in MODULES
        if any(name == library or name.startswith(f"{library}.") for name in imports_of(path))
    }
    assert all(name.startswith(tuple(ONLY_IN[library])) for name in users)


def test_asyncpg_stays_in_the_postgres_store() -> None:
    users = {name_of(path) for path in MODULES if "asyncpg" in imports_of(path)}
    assert all(name.startswith("effectlog.store.postgres") for name in users)


def test_leaves_import_only_leaves() -> None:
    for path in MODULES:
        if name_of(path) in LEAVES:
            ours = {name for name in known(imports_of(path, at_run_time=True)) if name != "effectlog"}
            assert ours <= LEAVES, path


def test_stores_and_rules_do_not_know_the_engine() -> None:
    for path in MODULES:
        name = name_of(path)
        if name.startswith(("effectlog.store.", "effectlog.ledger")):
            allowed = ("effectlog.store", "effectlog.ledger", *LEAVES)
            ours = {other for other in known(imports_of(path)) if other != "effectlog"}
            assert all(other.startswith(allowed) for other in ours), (name, ours)


def test_pure_modules_wait_for_nothing() -> None:
    for path in MODULES:
        if name_of(path) in PURE or name_of(path).startswith("effectlog.ledger"):
            text = path.read_text(encoding="utf-8")
            assert "async def" not in text, path
            assert not imports_of(path) & {"asyncio", "threading", "time"}, path


def test_decorators_do_not_know_the_scheduler() -> None:
    for path in (PACKAGE / "effects.py", PACKAGE / "tasks.py"):
        assert not known(imports_of(path)) & SCHEDULER


def test_product_code_does_not_import_what_tests_use() -> None:
    for path in MODULES:
        if not name_of(path).startswith(("effectlog.testing", "effectlog.cli")):
            assert not any(name.startswith("effectlog.testing") for name in imports_of(path)), path


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {name_of(path): known(imports_of(path, at_run_time=True)) for path in MODULES}
    graph = {name: {o for o in others if o not in (name, "effectlog")} for name, others in graph.items()}
    done: set[str] = set()

    def walk(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " → ".join((*trail[trail.index(name) :], name))
        if name in done:
            return
        for other in graph[name]:
            if not (other.startswith(f"{name}.") or name.startswith(f"{other}.")):  # a package and its parts
                walk(other, (*trail, name))
        done.add(name)

    for name in graph:
        walk(name, ())


def test_importing_loads_no_store_no_telemetry_sdk_and_no_command_line() -> None:
    script = "import effectlog, sys; print(' '.join(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    for heavy in ("aiosqlite", "sqlite3", "asyncpg", "opentelemetry.sdk", "click", "pydantic", "httpx"):
        assert heavy not in loaded


def test_functions_and_files_stay_readable() -> None:
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 400, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
                body_start = (
                    node.body[1].lineno if ast.get_docstring(node) and len(node.body) > 1 else node.lineno
                )
                assert node.end_lineno - body_start < 60, (path, node.name)


def test_no_sql_outside_the_stores() -> None:
    for path in MODULES:
        # The simulated destinations keep a file of their own.
        if not name_of(path).startswith(
            ("effectlog.store", "effectlog.testing.destinations", "effectlog.demo")
        ):
            words = path.read_text(encoding="utf-8")
            for statement in ("SELECT ", "INSERT INTO", "UPDATE effectlog", "DELETE FROM"):
                assert statement not in words, (path, statement)
