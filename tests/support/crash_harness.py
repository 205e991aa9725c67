"""Real processes for the crash tests: started, listened to, stopped and killed at named points."""

import contextlib
import itertools
import json
import os
import queue
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TextIO

from support import APPS


class Zygote:
    """The process that the tests' processes are forked from; one for the whole test run."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="effectlog-crash-")
        self._numbers = itertools.count()
        self._process = subprocess.Popen(
            [sys.executable, str(APPS / "crash_zygote.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def fork(self, arguments: tuple[str, ...], environment: dict[str, str]) -> tuple[int, TextIO, TextIO]:
        """Process id, and the two ends that we talk and listen at."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        number = next(self._numbers)
        pipes = [Path(self._folder.name, f"{number}-{name}") for name in ("in", "out")]
        for pipe in pipes:
            os.mkfifo(pipe)
        order = {"arguments": arguments, "environment": environment}
        order |= {"stdin": str(pipes[0]), "stdout": str(pipes[1])}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        return pid, pipes[0].open("w", encoding="utf-8"), pipes[1].open(encoding="utf-8")

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._folder.cleanup()


class Child:
    """One process of ours.

    Lines that it prints are waited for; ``go`` lets it pass the point it paused at.
    """

    def __init__(self, zygote: Zygote, *arguments: str, destination: str = "", pause_at: str = "") -> None:
        environment = {"DESTINATION": destination, "PAUSE_AT": pause_at}
        self.pid, self._stdin, self._stdout = zygote.fork(arguments, environment)
        self.lines: list[str] = []
        self._queue: queue.Queue[str | None] = queue.Queue()
        self._gone = threading.Event()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        for line in self._stdout:
            self._queue.put(line.strip())
        self._queue.put(None)
        self._gone.set()

    def wait_for(self, start: str, timeout: float = 20.0) -> str:
        """The next line that begins so; lines before it are kept in ``lines``."""
        while True:
            line = self._queue.get(timeout=timeout)
            if line is None:
                raise AssertionError(f"the process ended without saying {start!r}; it said {self.lines}")
            self.lines.append(line)
            if line.startswith(start):
                return line

    def go(self) -> None:
        self._stdin.write("g")
        self._stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def stop(self, *, between_writes_of: str) -> None:
        """Stop it where it holds no write transaction: SQLite has one writer, and stopped it would stop everybody."""
        while True:
            self.signal(signal.SIGSTOP)
            self._wait_until_stopped()
            if not _is_locked(between_writes_of):
                return
            self.signal(signal.SIGCONT)
            time.sleep(0.001)

    def _wait_until_stopped(self) -> None:
        """A thread that was inside the kernel stops when it leaves it, and may have taken a lock there."""
        threads = Path(f"/proc/{self.pid}/task")
        if not threads.exists():  # Not Linux.
            time.sleep(0.05)
            return
        while any(" T " not in (thread / "stat").read_text() for thread in threads.iterdir()):
            time.sleep(0.001)

    def kill(self) -> float:
        """Kill it and give when; on return it is gone."""
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        killed = time.monotonic()
        self.wait()
        return killed

    def wait(self, timeout: float = 20.0) -> None:
        """Wait until the process is gone."""
        assert self._gone.wait(timeout), f"process {self.pid} has not ended; it said {self.lines}"

    @property
    def gone(self) -> bool:
        return self._gone.is_set()

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        if not self.gone:
            self.kill()
        self._listener.join()
        self._stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()


def _is_locked(store: str) -> bool:
    connection = sqlite3.connect(store, timeout=0.02, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return True
    finally:
        connection.close()
    return False
