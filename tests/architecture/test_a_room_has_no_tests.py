"""Danger: a package of effectlog is tested somewhere else, or nowhere, and who changes it does not find its tests."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE, TESTS = ROOT / "effectlog", ROOT / "tests"
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
BESIDE = {
    "apps": "programs that processes of tests run",
    "support": "what tests share",
    "fixtures": "rows as released versions wrote them",
    "windows_loop": "put before the path of a process, for a loop that offers no more than Windows' does",
    "architecture": "what the source itself promises: imports, names, statements",
    "benchmarks": "the folder benchmarks",
    "conformance": "every guarantee on every store",
    "crash": "a SIGKILL at any point",
    "docs": "the papers' code and links",
    "doubt": "every way into doubt and out of it",
    "examples": "the folder examples",
    "exploration": "every order of events in the rules, as a program",
    "faults": "trouble with stores, clocks, forks and closing",
    "fuzz": "damaged rows and hostile arguments",
    "postgres": "what only a server can do to a store",
    "property": "random histories against a model",
    "transactions": "effects and runs inside a caller's transaction",
    "typing": "what type checkers see",
}
"""The folders of tests that are about more than one package, and what each is about."""


@pytest.mark.parametrize("room", ROOMS)
def test_every_package_has_its_folder_of_tests(room: str) -> None:
    assert list((TESTS / room).glob("test_*.py")), f"effectlog/{room} has no tests in tests/{room}"


def test_every_other_folder_is_named_with_what_it_is_about() -> None:
    files = (path for path in TESTS.rglob("*.*") if "__pycache__" not in path.parts)  # Which stays behind.
    folders = {path.relative_to(TESTS).parts[0] for path in files if path.parent != TESTS}
    assert folders - set(ROOMS) == set(BESIDE)
