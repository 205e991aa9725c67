"""Starting, stopping and reading the processes of the scheduler's tests."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from effectlog import EffectState

if TYPE_CHECKING:
    from collections.abc import Callable

    from effectlog import Run

APP = Path(__file__).with_name("scheduler_app.py")


@dataclass(frozen=True)
class Request:
    """One line of the requests file."""

    at: float
    pid: int
    what: str


class Process:
    """One started process."""

    def __init__(self, command: str, db: Path, requests: Path, options: dict[str, Any]) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(APP), command, str(db), json.dumps(options)],
            env={**os.environ, "REQUESTS": str(requests)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_until_ready(self) -> None:
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        assert line == "ready\n", f"the process said {line!r}"

    @property
    def pid(self) -> int:
        return self.popen.pid

    def signal(self, number: int) -> float:
        """Send a signal; the time it was sent."""
        sent = time.monotonic()
        self.popen.send_signal(number)
        return sent

    def kill(self) -> float:
        sent = self.signal(signal.SIGKILL)
        self.popen.wait()
        return sent

    def finish(self, line: str = "\n") -> Any:
        """Send a line, and read what it prints until it ends."""
        out, _ = self.popen.communicate(line, timeout=30)
        return json.loads(out) if out else None

    def wait(self, timeout: float = 15) -> int:
        return self.popen.wait(timeout)

    def end(self) -> None:
        """Whatever state it is in."""
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        for stream in (self.popen.stdin, self.popen.stdout):
            if stream is not None:
                stream.close()


async def completed(run: Run[Any], count: int) -> None:
    """Wait until so many effects of the run are recorded as completed."""
    while sum(effect.state is EffectState.COMPLETED for effect in (await run.record()).effects) < count:
        await asyncio.sleep(0.002)


class Field:
    """One store, one requests file and the processes of a test."""

    def __init__(self, folder: Path) -> None:
        self.db = folder / "runs.db"
        self.file = folder / "requests"
        self._processes: list[Process] = []

    def start(self, command: str, **options: Any) -> Process:
        process = Process(command, self.db, self.file, options)
        self._processes.append(process)
        process.wait_until_ready()
        return process

    def worker(self, **options: Any) -> Process:
        return self.start("work", **options)

    def process(self, pid: int) -> Process:
        return next(process for process in self._processes if process.pid == pid)

    def requests(self) -> list[Request]:
        if not self.file.exists():
            return []
        rows = (line.split(" ", 2) for line in self.file.read_text(encoding="utf-8").splitlines())
        return [Request(float(at), int(pid), what) for at, pid, what in rows]

    def whats(self) -> list[str]:
        return [request.what for request in self.requests()]

    def wait_for(self, condition: Callable[[list[Request]], bool], timeout: float = 15.0) -> list[Request]:
        """Wait until the requests fulfil a condition."""
        deadline = time.monotonic() + timeout
        while not condition(requests := self.requests()):
            assert time.monotonic() < deadline, f"after {timeout} s there are only {requests}"
            time.sleep(0.002)
        return requests

    def end(self) -> None:
        for process in self._processes:
            process.end()
