"""Wakes a thread when somebody writes to a file, where the operating system tells: Linux, by inotify.

What it wakes for is a hint. Elsewhere, or where a file system reports nothing, ``watch_writes`` returns None
or a watch that stays silent, and whoever waits has to look by itself.
(https://man7.org/linux/man-pages/man7/inotify.7.html)
"""

from __future__ import annotations

import contextlib
import os
import select
import sys

_IN_MODIFY = 0x2
_EVENTS = 4096
"""Bytes read at once; an event of a watched file takes 16, and equal ones in a row are one."""


class FileWrites:
    """The writes to one file since the last look."""

    def __init__(self, watch: int) -> None:
        self._watch = watch
        self._stop = os.eventfd(0, os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._watch, select.POLLIN)
        self._poll.register(self._stop, select.POLLIN)

    def wait(self, seconds: float) -> None:
        """Return when the file is written to, after ``seconds``, or when told to stop."""
        self._poll.poll(seconds * 1000)

    def any(self) -> bool:
        """Whether there were writes since the last call."""
        with contextlib.suppress(BlockingIOError):
            return bool(os.read(self._watch, _EVENTS))
        return False

    def stop(self) -> None:
        """Let ``wait`` return from now on; callable from any thread."""
        os.eventfd_write(self._stop, 1)

    def close(self) -> None:
        """To be called when nobody waits any more."""
        os.close(self._watch)
        os.close(self._stop)


def watch_writes(path: str) -> FileWrites | None:
    """A watch of the file, or None where there is none to be had."""
    if sys.platform != "linux":
        return None
    import ctypes  # noqa: PLC0415 - costs milliseconds, and only those who wait for others need it

    libc = ctypes.CDLL(None)
    watch = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    if watch < 0:
        return None
    if libc.inotify_add_watch(watch, os.fsencode(path), _IN_MODIFY) < 0:
        os.close(watch)
        return None
    return FileWrites(watch)
