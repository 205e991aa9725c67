"""Who may import whom: kept here, so that the flow stays decorators → effects → attempt → engine → store.

Every import counts: those for types only, and those inside functions.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PACKAGE = Path(__file__).parents[2] / "effectlog"
MODULES = sorted(PACKAGE.rglob("*.py"))

FLOORS: tuple[tuple[str, ...], ...] = (
    ("errors", "model", "clock", "printable"),
    ("validation", "user_warnings", "error_info", "codec", "contract"),
    ("store.commands", "store.rows", "store.protocol"),
    ("store.rules",),
    (
        "store.columns",
        "store.assemble",
        "store.statements",
        "store.caller_transactions",
        "store.dry_run",
        "store.url",
    ),
    ("store.sqlite", "store.postgres"),
    ("store",),
    ("keys", "retry", "context", "destinations"),
    ("decorators", "clients"),
    ("telemetry",),
    ("engine",),
    ("attempt",),
    ("effects",),
    ("worker",),
    ("runs",),
    ("sync",),
    ("log",),
    ("",),
    ("demo", "testing"),
    ("cli",),
    ("__main__",),
)
"""An import goes down, or stays on its floor: the package's rooms from the ground up. ``""`` is the package
itself."""

ONLY_IN = {
    "aiosqlite": "effectlog.store.sqlite",
    "asyncpg": "effectlog.store.postgres",
    "wrapt": "effectlog.decorators",
    "opentelemetry": "effectlog.telemetry",
}
STRANGERS = (("store.sqlite", "store.postgres"),)
"""Rooms of one floor that never know each other."""
PURE = ("effectlog.effects.journal", "effectlog.effects.doubt", "effectlog.store.rules")


def name_of(path: Path, package: Path = PACKAGE) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(text: str) -> Iterator[str]:
    """Every module and name that the text imports, wherever the import stands."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, "imports are absolute"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules_of(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """The modules of ours that each module imports; a package counts where nothing deeper is named."""
    graph: dict[str, set[str]] = {}
    for name, text in texts.items():
        found = {other for other in imported_by(text) if other in texts}
        # ``from effectlog.store import rows`` names the package on the way to the module.
        graph[name] = {o for o in found if not any(p.startswith(f"{o}.") for p in found)} - {name}
    return graph


def floor_of(name: str) -> int:
    """The floor of the longest prefix that the law names."""
    inside = name.removeprefix("effectlog").removeprefix(".")
    fits = [
        (len(room), number)
        for number, rooms in enumerate(FLOORS)
        for room in rooms
        if inside == room or (room and inside.startswith(f"{room}."))
    ]
    assert fits, f"{name} stands on no floor"
    return max(fits)[1]


def climbs(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    graph = modules_of(texts)
    return [(a, b) for a, others in graph.items() for b in others if floor_of(b) > floor_of(a)]


def circles(texts: Mapping[str, str]) -> list[Sequence[str]]:
    """One circle for each way back into a module that is being followed."""
    graph, found, done = modules_of(texts), [], set()

    def walk(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            found.append((*trail[trail.index(name) :], name))
        elif name not in done:
            for other in sorted(graph[name]):
                walk(other, (*trail, name))
            done.add(name)

    for name in sorted(graph):
        walk(name, ())
    return found


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return {name_of(path): path.read_text(encoding="utf-8") for path in MODULES}


def test_no_import_climbs(texts: dict[str, str]) -> None:
    assert climbs(texts) == []


def test_no_modules_import_each_other_in_a_circle(texts: dict[str, str]) -> None:
    assert circles(texts) == []


@pytest.mark.parametrize(
    "planted",
    [
        "if TYPE_CHECKING:\n    from effectlog.worker.worker import Worker\n",
        "def late() -> None:\n    from effectlog.log import EffectLog\n",
        "from effectlog.engine import engine\n",
    ],
)
def test_a_type_import_or_a_late_import_that_climbs_is_caught(texts: dict[str, str], planted: str) -> None:
    planted_in = "effectlog.store.rules.runs"
    ((climber, _),) = climbs(texts | {planted_in: f"{texts[planted_in]}\n{planted}"})
    assert climber == planted_in


def test_a_circle_of_type_imports_is_caught(texts: dict[str, str]) -> None:
    planted = "\nif TYPE_CHECKING:\n    from effectlog.effects import call\n"
    name = "effectlog.effects.call_state"
    assert circles(texts | {name: texts[name] + planted}) != []


def test_every_floor_is_lived_on(texts: dict[str, str]) -> None:
    rooms = {f"effectlog.{room}".rstrip(".") for rooms in FLOORS for room in rooms}
    assert rooms - texts.keys() == set()


def test_neighbours_that_are_strangers_stay_so(texts: dict[str, str]) -> None:
    graph = modules_of(texts)
    for one, other in STRANGERS:
        for here, there in ((one, other), (other, one)):
            for name, others in graph.items():
                if name.startswith(f"effectlog.{here}"):
                    assert not [o for o in others if o.startswith(f"effectlog.{there}")], name


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_a_library_is_imported_in_its_one_room(texts: dict[str, str], library: str) -> None:
    users = {
        name
        for name, text in texts.items()
        if any(found == library or found.startswith(f"{library}.") for found in imported_by(text))
    }
    assert users
    assert all(name.startswith(ONLY_IN[library]) for name in users), users


def test_pure_modules_wait_for_nothing(texts: dict[str, str]) -> None:
    for name, text in texts.items():
        if name.startswith(PURE):
            assert "async def" not in text, name
            assert not set(imported_by(text)) & {"asyncio", "threading", "time"}, name


def test_product_code_does_not_import_what_tests_use(texts: dict[str, str]) -> None:
    for name, text in texts.items():
        if not name.startswith(("effectlog.testing", "effectlog.cli")):
            assert not any(other.startswith("effectlog.testing") for other in imported_by(text)), name


def test_nothing_patches_the_product_from_inside(texts: dict[str, str]) -> None:
    for name, text in texts.items():
        assert not any(other.startswith("unittest") for other in imported_by(text)), name


def test_importing_loads_no_store_no_telemetry_sdk_and_no_command_line() -> None:
    script = "import effectlog, sys; print(' '.join(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"aiosqlite", "sqlite3", "asyncpg", "opentelemetry.sdk", "click", "pydantic", "httpx"}
    assert not heavy & set(loaded)


def test_the_root_is_an_entrance_hall() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 15


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


def test_no_sql_outside_the_stores(texts: dict[str, str]) -> None:
    for name, text in texts.items():
        # The simulated destinations keep a file of their own.
        if not name.startswith(("effectlog.store", "effectlog.testing.destinations", "effectlog.demo")):
            for statement in ("SELECT ", "INSERT INTO", "UPDATE effectlog", "DELETE FROM"):
                assert statement not in text, (name, statement)
