"""The decorators must not hide a wrong call from a type checker, nor make it flag a right one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MARK = "# must fail"


def marked_lines(file: Path) -> list[int]:
    return [n for n, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1) if MARK in line]


def mypy(file: Path) -> dict[int, str]:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file",
        str(ROOT / "pyproject.toml"),
        str(file),
    ]
    shown = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT).stdout
    flagged = {}
    for line in shown.splitlines():
        parts = line.split(":", 3)
        if len(parts) == 4 and " error" in parts[2] and parts[0].endswith(file.name):
            flagged[int(parts[1])] = parts[3]
    return flagged


def pyright(file: Path) -> dict[int, str]:
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", str(file)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT).stdout
    found = json.loads(shown)["generalDiagnostics"]
    return {d["range"]["start"]["line"] + 1: d["message"] for d in found if d["severity"] == "error"}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("checker", [mypy, pyright], ids=["mypy", "pyright"])
def test_right_calls_pass_and_wrong_ones_are_flagged(checker) -> None:
    assert checker(HERE / "passes.py") == {}
    flagged = checker(HERE / "fails.py")
    assert sorted(flagged) == marked_lines(HERE / "fails.py"), flagged
