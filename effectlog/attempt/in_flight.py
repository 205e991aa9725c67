"""One effect call under way, for other calls of its key to wait on."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import Future
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading


class InFlight:
    """One effect call under way, for others of the same key to wait on."""

    __slots__ = ("_done", "_lock", "_over", "_task", "loop")

    def __init__(self, lock: threading.RLock, *, is_async: bool) -> None:
        self.loop = running_loop() if is_async else None
        self._task = asyncio.current_task(self.loop) if self.loop is not None else None
        self._lock = lock
        self._done = False
        self._over: Future[None] | None = None

    def over(self) -> Future[None]:
        """A future that is done when the call is; made only where somebody waits."""
        with self._lock:
            if self._over is None:
                self._over = Future()
                if self._done:
                    self._over.set_result(None)
            return self._over

    def cancel(self) -> None:
        """Cancel the task that makes an async call; a sync one can't be."""
        if self.loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # Its loop is closed.
                self.loop.call_soon_threadsafe(self._task.cancel)

    def finish(self) -> None:
        """Say that the call is over."""
        with self._lock:
            self._done = True
            over = self._over
        if over is not None:
            over.set_result(None)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop running on this thread, if any."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
