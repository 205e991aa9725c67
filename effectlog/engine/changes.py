"""News of the store: calls listeners whenever something may have changed, here or elsewhere.

Lives on the engine's loop; only ``listen``, ``unlisten`` and ``tell_soon`` may be called from anywhere. The
invariant: while there is a listener, no change goes untold.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from effectlog.store.protocol import Store


class Changes:
    """Watches the store for others' changes, as long as anybody listens."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._listeners: list[Callable[[], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watch: asyncio.Task[None] | None = None
        self._telling = False

    def begin(self) -> None:
        """The store is open, and belongs to the running loop."""
        self._loop = asyncio.get_running_loop()
        self._telling = False
        if self._listeners:
            self._begin_watching()

    def end(self) -> None:
        """The store is about to be closed."""
        self._loop = None
        if self._watch is not None:
            self._watch.cancel()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` on the engine's thread whenever something may have changed."""
        self._listeners.append(listener)
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # It is closed by now.
                loop.call_soon_threadsafe(self._begin_watching)

    def unlisten(self, listener: Callable[[], None]) -> None:
        with contextlib.suppress(ValueError):
            self._listeners.remove(listener)

    def tell(self) -> None:
        for listener in list(self._listeners):
            listener()

    def tell_soon(self) -> None:
        """As ``tell``, from any thread; changes that come before the listeners are called share it."""
        loop = self._loop
        if self._listeners and not self._telling and loop is not None:
            self._telling = True
            with contextlib.suppress(RuntimeError):  # It is closed by now.
                loop.call_soon_threadsafe(self._tell_now)

    def _tell_now(self) -> None:
        self._telling = False
        self.tell()

    def _begin_watching(self) -> None:
        if self._loop is not None and (self._watch is None or self._watch.done()):
            self._watch = self._loop.create_task(self._watch_store())

    async def _watch_store(self) -> None:
        while self._listeners and self._loop is not None:
            await self._store.changed()
            self.tell()
