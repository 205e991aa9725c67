"""Where a process can die while it executes a run, and a store that makes it die, or pause, just there.

Every boundary is a durable record: the moment before it is written, and the moment after. Between the
*started* and the *completed* record of an effect lies the call, so "after started" is a crash before the
destination was asked, and "before completed" is one after it accepted.
"""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from effectlog.errors import StoreClosed
from effectlog.store import commands as c

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from effectlog.store.sqlite.store import SqliteStore


@dataclass(frozen=True, slots=True)
class Boundary:
    """One moment in the life of a run; ``ordinal`` tells repeated requests of one effect apart."""

    moment: str
    """``"before"`` or ``"after"``."""
    record: str
    """``"started"``, ``"completed"`` or ``"end"``."""
    key: str = ""
    ordinal: int = 0

    def __str__(self) -> str:
        what = "the end" if self.record == "end" else f"{self.record} {self.key}"
        return f"{self.moment} {what}" + (f" (request {self.ordinal + 1})" if self.ordinal else "")


class Boundaries:
    """Names the boundaries that commands pass, in order."""

    def __init__(self) -> None:
        self.passed: list[Boundary] = []
        self._seen: dict[tuple[str, str], int] = {}

    def around(self, command: c.Command) -> tuple[Boundary, Boundary] | None:
        """The boundaries before and after this command's record; None for one that is no step of a run."""
        match command:
            case c.StartEffect():
                record, key = "started", command.key
            case c.FinishEffect():
                record, key = "completed", command.key
            case c.EndAttempt():
                record, key = "end", ""
            case _:
                return None
        ordinal = self._seen.get((record, key), 0)
        self._seen[record, key] = ordinal + 1
        pair = (Boundary("before", record, key, ordinal), Boundary("after", record, key, ordinal))
        self.passed.extend(pair)
        return pair


class StoppingStore:
    """A SQLite store whose process stops at one boundary: nothing of it is written or read from then on.

    ``at`` None only lists the boundaries. ``stop`` says how it stops: by default every later call fails, as
    for a process that is gone.
    """

    def __init__(
        self, inner: SqliteStore, at: Boundary | None = None, stop: Callable[[], Any] | None = None
    ) -> None:
        self.inner = inner
        self._at = at
        self._stop = stop
        self.boundaries = Boundaries()
        self.stopped = False

    def __getattr__(self, name: str) -> Any:
        if self.stopped and name not in ("close", "liveness", "name", "clock"):
            raise self._gone()
        return getattr(self.inner, name)

    async def apply(self, commands: Sequence[c.Command]) -> list[c.Outcome]:
        """Apply the commands up to the boundary, then stop."""
        if self.stopped:
            raise self._gone()
        at = None
        for index, command in enumerate(commands):
            pair = self.boundaries.around(command)
            if pair is not None and self._at in pair:
                at = index + pair.index(self._at)
        if at is None:
            return await self.inner.apply(commands)
        first = await self.inner.apply(commands[:at]) if at else []
        await self._stop_here()
        return first + await self.inner.apply(commands[at:])

    async def _stop_here(self) -> None:
        if self._stop is not None:
            await self._stop()
            return
        self.stopped = True
        self.inner.liveness.abandon()  # type: ignore[attr-defined]  # what the kernel does for a dead process
        raise self._gone()

    def _gone(self) -> StoreClosed:
        return StoreClosed(f"the simulated process is gone (crash {self._at})")


async def kill_this_process() -> None:
    """Stop as a real process does."""
    os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(60)
