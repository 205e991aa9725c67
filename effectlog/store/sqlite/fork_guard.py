"""Keeps a process from forking while SQLite is at work in one of its threads.

SQLite keeps who holds which of a file's locks in the process's memory. A child that is forked in the middle
of a transaction inherits that as held for ever, and a log of its own on the same file would never get to
write. The invariant: at a fork no function that was called through ``at_work`` is running.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

LONGEST_WAIT = 10.0
"""Seconds after which a fork goes on regardless, such as when another process keeps the file locked."""


class _Gate:
    """Lets any number of threads work, or one fork."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._at_work = 0
        self._forking = False

    def __enter__(self) -> None:
        with self._changed:
            while self._forking:
                self._changed.wait()
            self._at_work += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._at_work -= 1
            if self._forking:
                self._changed.notify_all()

    def close(self) -> None:
        """Wait until nobody is at work, and keep everybody out."""
        with self._changed:
            self._forking = True
            self._changed.wait_for(lambda: not self._at_work, LONGEST_WAIT)

    def open(self) -> None:
        with self._changed:
            self._forking = False
            self._changed.notify_all()


_gate = _Gate()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_gate.close, after_in_parent=_gate.open, after_in_child=_gate.reset)


def at_work(function: Callable[..., T], *args: Any) -> T:
    """Call the function while no fork happens."""
    with _gate:
        return function(*args)
