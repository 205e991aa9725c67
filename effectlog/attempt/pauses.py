"""How long this whole process stood still: stopped by a signal or a debugger, or paused with its host.

Nothing of that is the running code's doing, so a ``timeout`` does not count it, and people are warned instead
of being left with a mystery. It decides nothing about leases. The invariant: time in which the process
computed, or merely one of its loops was blocked, is never excused.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from effectlog.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

INTERVAL = 0.5
"""Seconds between two looks, at most."""
LEAST = 0.5
"""Seconds by which a look must be late: less is everyday waiting for a processor."""


class PauseDetector:
    """Looks at the clocks again and again, from a thread that nothing but a standstill keeps from it."""

    def __init__(self) -> None:
        self._seen = _clocks()

    def look(self) -> tuple[float, float]:
        """Seconds of standstill since the last look: those that timers counted, and all of them."""
        before, self._seen = self._seen, _clocks()
        passed, used, all_passed = (now - then for now, then in zip(self._seen, before, strict=True))
        # Somebody who holds the interpreter lock makes us as late, but computes meanwhile.
        if all_passed < INTERVAL + LEAST or used > passed / 2:
            return 0.0, 0.0
        return (passed if passed >= INTERVAL + LEAST else 0.0), all_passed


def _clocks() -> tuple[float, float, float]:
    """The clock of timers, processor time, and a clock that goes on while the machine sleeps."""
    return time.monotonic(), time.process_time(), SystemClock().boot()


class PauseAwareTimer:
    """Calls back after this many seconds, without those for which the process stood still.

    ``pause_credit`` returns the seconds of standstill so far, of which ``already`` lie before the timer's
    begin.
    """

    def __init__(
        self,
        seconds: float,
        callback: Callable[[], object],
        pause_credit: Callable[[], Coroutine[object, object, float]],
        already: float,
    ) -> None:
        self._callback = callback
        self._excused = pause_credit
        self._counted = already
        self._loop = asyncio.get_running_loop()
        self._asking: asyncio.Task[None] | None = None
        self._at = self._loop.time() + seconds
        self._timer = self._loop.call_at(self._at, self._due)

    def cancel(self) -> None:
        """Never call back any more."""
        self._timer.cancel()
        if self._asking is not None:
            self._asking.cancel()

    def _due(self) -> None:
        self._asking = self._loop.create_task(self._ask())

    async def _ask(self) -> None:
        pause_credit = await self._excused()
        self._at += pause_credit - self._counted
        self._counted = pause_credit
        if self._at > self._loop.time():
            self._timer = self._loop.call_at(self._at, self._due)
        else:
            self._callback()
