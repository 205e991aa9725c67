"""Starting, stopping and reading the processes of the workers' tests."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import worker_app

from effectlog import EffectState
from support.forked import prepared

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from effectlog import Run


@dataclass(frozen=True)
class Request:
    """One line of the requests file."""

    at: float
    pid: int
    what: str


class Process:
    """One started process."""

    def __init__(self, command: str, db: Path, requests: Path, options: dict[str, Any]) -> None:
        self.pipe, theirs = prepared().Pipe()
        self._process = prepared().Process(
            target=worker_app.main, args=(command, str(db), str(requests), options, theirs), daemon=True
        )
        self._process.start()
        theirs.close()

    def wait_until_ready(self) -> None:
        assert self.pipe.poll(20), "the process never became ready"
        assert self.pipe.recv() == "ready"

    @property
    def pid(self) -> int:
        pid = self._process.pid
        assert pid is not None
        return pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number if one ended it."""
        return self._process.exitcode

    def signal(self, number: int) -> float:
        """Send a signal; the time it was sent."""
        sent = time.monotonic()
        os.kill(self.pid, number)
        return sent

    def kill(self) -> float:
        sent = self.signal(signal.SIGKILL)
        self.wait()
        return sent

    def wait(self, timeout: float = 15) -> int | None:
        self._process.join(timeout)
        return self._process.exitcode

    def end(self) -> None:
        """Whatever state it is in."""
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self._process.close()
        self.pipe.close()


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
