"""Notices user code that blocks its loop, and says which task and effect it was and for how long.

Watches from the engine's thread, which no blocked loop can stop. It only warns: leases are kept elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from typing import TYPE_CHECKING

from effectlog.user_warnings import warn

if TYPE_CHECKING:
    from effectlog.engine.runtime import Runtime
    from effectlog.worker.running import RunningAttempts

logger = logging.getLogger("effectlog")


_REMEMBERED = 1_000
"""Culprits that are reported once: an attempt and the effect in it."""


class LoopWatch:
    """Asks a loop for signs of life, and warns if one takes a third of the lease."""

    def __init__(self, runtime: Runtime, executor: RunningAttempts) -> None:
        self._engine = runtime.engine
        self._executor = executor
        self._lease = runtime.lease
        # Asked so often that what blocks for a third of the lease has been asked in time.
        self._pause = runtime.lease / 30
        self._limit = runtime.lease / 3 - self._pause
        self._told: deque[str] = deque(maxlen=_REMEMBERED)
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
        while (watched := self._loop) is not None:
            asked, pause_credit = time.monotonic(), await self._excused()
            try:
                culprits = await self._await_answer(watched)
            except RuntimeError:
                return  # The loop is closed.
            blocked = time.monotonic() - asked - (await self._excused() - pause_credit)
            # Measured as well as timed out: what holds the interpreter lock stops this thread's timers too.
            if blocked > self._limit and self._loop is not None:
                culprits = culprits or self._executor.doing(watched)
                self._tell(watched, culprits, blocked)
            await asyncio.sleep(self._pause)

    def _tell(self, watched: asyncio.AbstractEventLoop, culprits: str, blocked: float) -> None:
        if culprits not in self._told:
            self._told.append(culprits)
            with contextlib.suppress(RuntimeError):
                watched.call_soon_threadsafe(_warn, culprits, blocked, self._lease)

    async def _excused(self) -> float:
        """Seconds for which the whole process stood still, which is nobody's blocking code."""
        owner = self._executor.owner
        await owner.notice_pause()
        return owner.pause_credit

    async def _await_answer(self, watched: asyncio.AbstractEventLoop) -> str | None:
        """Wait for the sign of life; who was at work where it took too long."""
        here = asyncio.get_running_loop()
        answered = asyncio.Event()

        def answer() -> None:
            with contextlib.suppress(RuntimeError):
                here.call_soon_threadsafe(answered.set)

        pause_credit = await self._excused()
        watched.call_soon_threadsafe(answer)
        if await _is_set_within(answered, self._limit):
            return None
        if await self._excused() > pause_credit and await _is_set_within(answered, self._limit):
            return None
        culprits = self._executor.doing(watched)
        if culprits not in self._told:
            logger.warning(
                "effectlog: the event loop has been blocked for %.2f s by %s", self._limit, culprits
            )
        while self._loop is not None and not await _is_set_within(answered, 1.0):
            pass
        return culprits


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await event.wait()
    return event.is_set()


def _warn(culprits: str, seconds: float, lease: float) -> None:
    kept = "was kept" if seconds < lease else "is kept as long as that thread gets to run"
    warn(
        f"the event loop was blocked for {seconds:.2f} s by {culprits}. The lease of {lease:g} s is renewed "
        f"from another thread and {kept}; move blocking code to asyncio.to_thread or a sync task"
    )
