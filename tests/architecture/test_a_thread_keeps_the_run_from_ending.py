"""Danger: a failed test leaves a thread that waits for ever, and the whole run hangs after its last line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
LEAVES_A_THREAD = """
import threading

def test_that_fails():
    threading.Thread(target=threading.Event().wait).start()
    raise AssertionError
"""


def test_it_is_shown_and_left_behind(tmp_path: Path) -> None:
    shutil.copy(TESTS / "conftest.py", tmp_path)
    (tmp_path / "test_left.py").write_text(LEAVES_A_THREAD)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_left.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(TESTS), "EXIT_PATIENCE": "1", "CI": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "1 failed" in done.stdout
    assert "most recent call first" in done.stderr
    assert done.returncode == 1
