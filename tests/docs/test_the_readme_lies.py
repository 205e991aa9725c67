"""Every Python block of the README is executed, and its two commands are what CI runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", BLOCKS, ids=lambda code: str(README[: README.index(code)].count("\n") + 1))
def test_a_snippet_runs_as_it_stands(code: str, tmp_path: Path) -> None:
    (tmp_path / "snippet.py").write_text(code, encoding="utf-8")
    # For the snippet that is a test: some releases of pytest-asyncio warn where this is not said.
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    command = [sys.executable, "-W", "error", "snippet.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr


def test_the_first_example_stays_as_short_as_its_title_says() -> None:
    lines = [line for line in BLOCKS[0].splitlines() if line.strip()]
    assert len(lines) <= 22


def test_ci_runs_the_commands_that_the_readme_shows() -> None:
    for marker in ("try", "test"):
        assert re.search(rf"^<!-- ci: {marker} -->\n```sh\n.+\n```$", README, re.MULTILINE), marker
        assert f"command_after {marker}" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_no_word_of_a_promise_that_nobody_can_keep() -> None:
    assert "exactly once" not in README.lower()
