"""Starts, hears and signals the processes of one run, and ends them whatever happens.

Workers are forked by a process that has imported everything already (multiprocessing's fork server), so that
a worker's start costs little; each is a real process with a store connection of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import sqlite3
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.failure_window import worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess
    from pathlib import Path

    from benchmarks.failure_window.scenarios import Point

PATIENCE = 30.0
"""Seconds that anything may take before it counts as failed."""

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([worker.__name__])


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; ``at`` is in seconds on the clock that all processes share."""

    at: float
    who: str
    name: str
    facts: dict[str, Any]


@dataclass(slots=True, eq=False)
class Stage:
    """All that was told of one run so far, and a way to wait for more."""

    events: list[Event] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, who: str, name: str, at: float | None = None, **facts: Any) -> Event:
        event = Event(time.monotonic() if at is None else at, who, name, facts)
        self.events.append(event)
        self._news.set()
        return event

    def find(self, name: str, who: str | None = None) -> Event | None:
        """The first such event."""
        return next((e for e in self.events if e.name == name and who in (None, e.who)), None)

    async def told(self, name: str, who: str) -> Event:
        """Wait for an event; raises TimeoutError where it does not come."""
        return await self._until(lambda: self.find(name, who), f"{who} to tell {name!r}")

    async def _until(self, found: Callable[[], Event | None], what: str) -> Event:
        deadline = time.monotonic() + PATIENCE
        while (event := found()) is None:
            self._news.clear()
            try:
                async with asyncio.timeout_at(
                    asyncio.get_running_loop().time() + deadline - time.monotonic()
                ):
                    await self._news.wait()
            except TimeoutError:
                told = [(event.who, event.name) for event in self.events]
                raise TimeoutError(f"waited {PATIENCE:.0f} s for {what}; told so far: {told}") from None
        return event

    @contextlib.asynccontextmanager
    async def worker(self, settings: worker.Settings) -> AsyncIterator[Player]:
        """Start one worker process, which waits for ``open``; it is gone when the block is left."""
        ours, theirs = _processes.Pipe()
        process = _processes.Process(target=worker.main, args=(settings, theirs), daemon=True)
        process.start()
        theirs.close()
        player = Player(settings.name, self, process, ours)
        try:
            await self.told("up", settings.name)
            yield player
        finally:
            await player.end()


def _is_being_written(path: Path) -> bool:
    with contextlib.closing(sqlite3.connect(path, timeout=0.02, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return True
    return False


class Player:
    """One worker process, seen from the runner."""

    def __init__(self, name: str, stage: Stage, process: ForkServerProcess, pipe: Connection) -> None:
        self.name = name
        self._stage = stage
        self._process = process
        self._pipe = pipe
        self._loop = asyncio.get_running_loop()
        self._gone = asyncio.Event()
        self._loop.add_reader(pipe.fileno(), self._hear)
        self._loop.add_reader(process.sentinel, self._left)

    def _hear(self) -> None:
        try:
            while self._pipe.poll():
                told = self._pipe.recv()
                self._stage.add(self.name, told.pop("event"), told.pop("at"), **told)
        except (EOFError, OSError):
            self._loop.remove_reader(self._pipe.fileno())

    def _left(self) -> None:
        self._loop.remove_reader(self._process.sentinel)
        self._stage.add(self.name, "gone")
        self._gone.set()

    def order(self, what: str) -> None:
        """``open`` the store and work, or ``go`` on from a boundary."""
        self._pipe.send(what)

    async def serve(self) -> None:
        """Open the store and claim; on return it does."""
        self.order("open")
        await self._stage.told("serving", self.name)

    async def told(self, point: Point) -> Event:
        return await self._stage.told(point, self.name)

    def signal(self, number: signal.Signals) -> Event:
        os.kill(self._pid, number)
        return self._stage.add("runner", number.name, to=self.name)

    async def stop(self, *, between_writes_of: Path | None) -> Event:
        """SIGSTOP; on return every thread of it stands still.

        Not in the middle of a write to that SQLite file, which would keep everybody else from writing.
        """
        while True:
            sent = self.signal(signal.SIGSTOP)
            while psutil.Process(self._pid).status() != psutil.STATUS_STOPPED:
                await asyncio.sleep(0.001)
            if between_writes_of is None or not _is_being_written(between_writes_of):
                return sent
            self.signal(signal.SIGCONT)
            await asyncio.sleep(0.001)

    def release(self) -> Event:
        """What a supervisor does that can't wait: the first signal drains, the second gives everything back."""
        self.signal(signal.SIGTERM)
        return self.signal(signal.SIGINT)

    async def drain(self) -> None:
        """Let it finish and leave."""
        if not self._gone.is_set():
            os.kill(self._pid, signal.SIGTERM)
            await asyncio.wait_for(self._gone.wait(), PATIENCE)

    async def end(self) -> None:
        """End it now, in whatever state it is."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        await self._gone.wait()
        self._hear()
        self._loop.remove_reader(self._pipe.fileno())
        self._pipe.close()
        self._process.join()

    @property
    def _pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid
