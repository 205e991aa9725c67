"""A worker process that stops itself in the middle of a transaction, seen from a test."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import TYPE_CHECKING

from support import APPS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PROGRAM = APPS / "stopping_process.py"


class Stopping:
    """The process, seen from here."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def told(self, line: str) -> None:
        assert self._process.stdout is not None
        async with asyncio.timeout(20):
            while (told := (await self._process.stdout.readline()).decode().strip()) != line:
                assert told, f"it ended and never told {line!r}"

    def order(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    async def stops(self) -> None:
        self.order("stop")
        await self.told("stopping")

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)


@contextlib.asynccontextmanager
async def stopping(url: str, point: str, *, lease: float, patience: float = 10.0) -> AsyncIterator[Stopping]:
    """Worker A, serving; ``point`` is explained in its program."""
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, str(PROGRAM), url, point, str(lease), str(patience)]
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    try:
        a = Stopping(process)
        await a.told("ready")
        yield a
    finally:
        process.kill()
        await process.communicate()
