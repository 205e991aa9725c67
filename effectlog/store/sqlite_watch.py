"""Tells when another connection has committed to an SQLite file, by looking at its ``data_version``.

Looks from a thread of its own: there one costs half of what it costs on an event loop, and a worker that
waits for work does little else. It reads no tables.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time

from effectlog.store.sqlite_fork import at_work

POLL_INTERVAL = 0.025
"""Seconds between two looks."""


class ChangeWatch:
    """Looks from the first ``changed`` until ``stop``, through a connection that may change threads."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._stopping = False
        self._changed = asyncio.Event()
        self._thread: threading.Thread | None = None

    async def changed(self) -> None:
        """Return once another connection has committed since the last call."""
        if self._thread is None:
            watch = (asyncio.get_running_loop(),)
            self._thread = threading.Thread(
                target=self._watch, args=watch, name="effectlog-sqlite-watch", daemon=True
            )
            self._thread.start()
        await self._changed.wait()
        self._changed.clear()

    def stop(self) -> None:
        """End the thread; it never waits for anything but its interval."""
        self._stopping = True
        if self._thread is not None:
            self._thread.join()
        self._connection.close()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        seen = -1
        while not self._stopping:
            time.sleep(POLL_INTERVAL)  # An event to wait on would cost as much again as the look itself.
            version = at_work(_data_version, self._connection)
            if version != seen:
                seen = version
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._changed.set)


def _data_version(connection: sqlite3.Connection) -> int:
    try:
        (version,) = connection.execute("PRAGMA data_version").fetchone()
    except sqlite3.Error:
        return -2  # Whoever looks at the store next gets the reason.
    return int(version)
