"""Real processes for tests: each runs a few lines, says what it did, and waits to be told to go on."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from effectlog.store.sqlite import liveness as flock

if TYPE_CHECKING:
    from collections.abc import Iterator

PRELUDE = """
import asyncio, os, subprocess, sys, time

def say(text):
    print(text, flush=True)

def wait():
    sys.stdin.readline()
"""

STORE = """
from effectlog.store import commands as c
from effectlog.errors import StoreClosed
from effectlog.store.rows import NewRun
from effectlog.store.sqlite.store import SqliteStore
"""

LIVENESS = f"""
# By its file: importing the whole package would take most of the test's time.
import importlib.util
spec = importlib.util.spec_from_file_location("flock", {flock.__file__!r})
flock = importlib.util.module_from_spec(spec)
spec.loader.exec_module(flock)
"""


class Child:
    def __init__(self, code: str, *args: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + code, *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def hear(self) -> str:
        """The next line that the process says, or its error output if it died."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        return self.process.stdout.readline().strip() or self.process.stderr.read()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def finish(self) -> tuple[int, str, str]:
        """The exit status, and everything else that it said on both outputs."""
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def children(code: str, *args: object, count: int = 1) -> Iterator[list[Child]]:
    started = [Child(code, *args) for _ in range(count)]
    try:
        yield started
    finally:
        for child in started:
            child.end()
