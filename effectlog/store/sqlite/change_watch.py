"""Tells when another connection has committed to an SQLite file: its ``data_version`` says so.

Looks from a thread of its own, where a look costs half of what it costs on an event loop. Where the operating
system tells of writes to the WAL it looks only then; elsewhere, and where it turns out to be deaf, at short
intervals. It reads no tables. The invariant: no commit stays unnoticed for longer than ``SILENCE``.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from typing import TYPE_CHECKING

from effectlog.store.sqlite.fork_guard import at_work
from effectlog.store.sqlite.inotify import watch_writes

if TYPE_CHECKING:
    from effectlog.store.sqlite.inotify import FileWrites

POLL_INTERVAL = 0.025
"""Seconds between two looks while much is written, or nothing told of."""
SILENCE = 1.0
"""Seconds after which it looks although no write was told of, and for which it goes on looking after one."""
_FIRST_PAUSE = 0.001


class ChangeWatch:
    """Looks from the first ``changed`` until ``stop``, through a connection that may change threads."""

    def __init__(self, connection: sqlite3.Connection, wal: str) -> None:
        self._connection = connection
        self._wal = wal
        self._seen = -1
        self._stopping = False
        self._writes: FileWrites | None = None
        self._changed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def changed(self) -> None:
        """Return once another connection has committed since the last call."""
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._writes = watch_writes(self._wal)
            self._thread = threading.Thread(target=self._watch, name="effectlog-sqlite-watch", daemon=True)
            self._thread.start()
        await self._changed.wait()
        self._changed.clear()

    def stop(self) -> None:
        """End the thread; it never waits for anything but its interval."""
        self._stopping = True
        if self._writes is not None:
            self._writes.stop()
        if self._thread is not None:
            self._thread.join()
        if self._writes is not None:
            self._writes.close()
        self._connection.close()

    def _watch(self) -> None:
        self._look()
        listening = self._writes is not None
        while not self._stopping:
            # Waiting on an event of threading's would cost as much again as the look itself.
            if listening and self._writes is not None:
                listening = self._listen(self._writes)
            else:
                time.sleep(POLL_INTERVAL)
                self._look()

    def _listen(self, writes: FileWrites) -> bool:
        """Wait for a write and look for the commit that it belongs to.

        False if one came without a write told of.
        """
        writes.wait(SILENCE)
        if writes.any():
            self._look_for_commits(writes)
            return True
        # A write comes before its commit is seen, so it would have been told of by now, unless the disk took
        # longer than our silence; taken for deafness, that costs looks and nothing else.
        return not self._look() or writes.any()

    def _look_for_commits(self, writes: FileWrites) -> None:
        """Look until writes cease: each may belong to a commit that can't be seen yet."""
        pause, written = _FIRST_PAUSE, time.monotonic()
        while not self._stopping and time.monotonic() - written < SILENCE:
            self._look()
            if pause < POLL_INTERVAL:
                time.sleep(pause)
                pause *= 2
                continue
            writes.wait(POLL_INTERVAL)
            if writes.any():
                pause, written = _FIRST_PAUSE, time.monotonic()

    def _look(self) -> bool:
        """Look once, and tell of a change."""
        version = at_work(_data_version, self._connection)
        if version == self._seen:
            return False
        self._seen = version
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._changed.set)
        return True


def _data_version(connection: sqlite3.Connection) -> int:
    try:
        (version,) = connection.execute("PRAGMA data_version").fetchone()
    except sqlite3.Error:
        return -2  # Whoever looks at the store next gets the reason.
    return int(version)
