"""Runs the real command line in processes of its own, in a folder with a module of tasks."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support import APPS

from effectlog import EffectLog
from effectlog.cli.main import command_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHOP = APPS / "shop_app.py"
PATIENCE = 30


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Terminal:
    """A shell in one folder, with one store in the environment."""

    folder: Path
    url: str | None = None

    @property
    def store(self) -> str:
        return self.url or str(self.folder / "orders.db")

    @property
    def env(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name != "EFFECTLOG_STORE"}
        return inherited | {"EFFECTLOG_STORE": self.store, "COLUMNS": "100"}

    def log(self) -> EffectLog:
        return EffectLog(self.store)

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "effectlog", *arguments],
            cwd=self.folder,
            env=self.env | options.pop("env", {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            **options,
        )

    def __call__(self, *arguments: str, **options: Any) -> Done:
        process = self.start(*arguments, **options)
        out, err = process.communicate(timeout=PATIENCE)
        return Done(process.returncode, out, err)

    def inside(self, *arguments: str) -> Done:
        """The same in this process: three tests in one second instead of one, where the process is not the point."""
        with ThreadPoolExecutor(
            1
        ) as thread:  # The command runs a loop of its own; the test may have one already.
            call = partial(CliRunner().invoke, command_line, arguments, prog_name="effectlog", env=self.env)
            found = thread.submit(call).result(PATIENCE)
        return Done(found.exit_code, found.stdout, found.stderr)

    @contextlib.contextmanager
    def worker(self, *arguments: str, module: str = "shop_app") -> Iterator[subprocess.Popen[str]]:
        """A real worker, from the moment at which it serves; killed at the end if it still runs."""
        process = self.start("worker", module, *arguments)
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            assert " serves " in line, line
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.communicate(timeout=PATIENCE)


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    shutil.copy(SHOP, tmp_path / "shop_app.py")
    return Terminal(tmp_path)
