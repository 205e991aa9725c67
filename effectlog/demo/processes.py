"""The demo's processes: started, listened to, killed, and always gone at the end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from effectlog.errors import EffectLogError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

PATIENCE = 15.0
"""Seconds that anything in the demo may take before it counts as failed."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a process told; ``at`` is on the clock that all of them share."""

    name: str
    at: float
    child: Child
    facts: dict[str, Any]


@dataclass(slots=True, eq=False)
class Child:
    """One process of the demo."""

    process: asyncio.subprocess.Process
    killed_at: float | None = None
    last_words: str = ""

    def kill(self) -> None:
        """SIGKILL: it gets no chance to record anything."""
        self.process.kill()
        self.killed_at = time.monotonic()


@dataclass(slots=True, eq=False)
class Processes:
    """All that the processes have reported so far, and a way to wait for more."""

    events: list[Event] = field(default_factory=list)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def told(self, what: str, wanted: Callable[[Event], bool]) -> Event:
        """Wait for an event; raises EffectLogError where it does not come."""
        try:
            async with asyncio.timeout(PATIENCE), self._news:
                while True:
                    if found := next(filter(wanted, self.events), None):
                        return found
                    await self._news.wait()
        except TimeoutError:
            raise EffectLogError(f"the demo waited {PATIENCE:.0f} s for '{what}' in vain") from None

    @contextlib.asynccontextmanager
    async def child(self, *arguments: str) -> AsyncIterator[Child]:
        """Run ``python -m …`` as long as the block lasts."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C is for the demo alone, which then ends its processes itself.
            start_new_session=True,
        )
        child = Child(process)
        listeners = [asyncio.create_task(self._hear(child)), asyncio.create_task(self._overhear(child))]
        try:
            yield child
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await asyncio.shield(process.wait())
            for listener in listeners:
                listener.cancel()

    async def _hear(self, child: Child) -> None:
        assert child.process.stdout is not None  # noqa: S101 - it was started with a pipe
        async for line in child.process.stdout:
            facts = json.loads(line)
            await self._add(Event(facts.pop("event"), facts.pop("at"), child, facts))

    async def _overhear(self, child: Child) -> None:
        """A worker says on standard error that it serves; anything else there is for the case of trouble."""
        assert child.process.stderr is not None  # noqa: S101 - as above
        async for line in child.process.stderr:
            child.last_words = line.decode(errors="replace").strip()
            if " serves " in child.last_words:
                await self._add(Event("serving", time.monotonic(), child, {}))

    async def _add(self, event: Event) -> None:
        async with self._news:
            self.events.append(event)
            self._news.notify_all()
