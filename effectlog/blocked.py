"""Notices user code that blocks its loop, and says which task and effect it was and for how long."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from effectlog.notice import warn

if TYPE_CHECKING:
    from effectlog.engine import Engine
    from effectlog.executor import Executor


class LoopWatch:
    """Asks a loop for a sign of life from the engine's thread, and warns if it takes a third of the lease."""

    def __init__(self, engine: Engine, executor: Executor, lease: float) -> None:
        self._engine = engine
        self._executor = executor
        self._lease = lease
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch this loop, from any thread."""
        self._loop = loop
        self._engine.call(self._begin())

    def stop(self) -> None:
        """Stop watching, from any thread."""
        self._loop = None

    async def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        pause = self._lease / 12
        while (watched := self._loop) is not None:
            answered = asyncio.Event()
            here = asyncio.get_running_loop()
            asked = time.monotonic()

            def answer(answered: asyncio.Event = answered, here: asyncio.AbstractEventLoop = here) -> None:
                with contextlib.suppress(RuntimeError):
                    here.call_soon_threadsafe(answered.set)

            try:
                watched.call_soon_threadsafe(answer)
            except RuntimeError:
                return  # The loop is closed.
            culprits = await self._await_answer(answered)
            blocked = time.monotonic() - asked
            if culprits is not None and self._loop is not None:
                with contextlib.suppress(RuntimeError):
                    watched.call_soon_threadsafe(_tell, culprits, blocked, self._lease)
            await asyncio.sleep(pause)

    async def _await_answer(self, answered: asyncio.Event) -> str | None:
        """Wait for the sign of life; who was at work where it took too long."""
        try:
            async with asyncio.timeout(self._lease / 3):
                await answered.wait()
        except TimeoutError:
            culprits = (
                "; ".join(attempt.doing() for attempt in self._executor.attempts) or "code outside attempts"
            )
        else:
            return None
        while self._loop is not None and not answered.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await answered.wait()
        return culprits


def _tell(culprits: str, seconds: float, lease: float) -> None:
    warn(
        f"the event loop was blocked for {seconds:.2f} s while it executed {culprits}. The lease of {lease:g} s is "
        f"renewed from another thread and was kept; move blocking code to asyncio.to_thread or a sync task"
    )
