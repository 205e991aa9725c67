"""What was handed in to the engine and is not answered yet: some of it waits, some of it the store has.

Shared by everybody who hands in and by whoever commits, under one lock. The invariant: entries leave in the order in
which they came, and one that is put back comes before all that wait.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from effectlog.entries import Entry

LINGER = 0.0005
"""Seconds that a batch of nothing but completed records waits for the run's next record."""
BATCH_LIMIT = 512
"""Commands in one transaction at most, so that a heartbeat never waits long."""
STUCK = 0.25
"""Seconds without an answer of the store after which the deadlines of those who wait are looked at."""


class Inbox:
    """The entries of one opening of a store."""

    def __init__(self) -> None:
        # Between a look at ``closing`` and what follows from it nothing may close: it would never be answered.
        self.lock = threading.RLock()
        self.more = threading.Condition(self.lock)
        """Told of each entry, and of the close, while somebody lingers on another thread."""
        self.closing = False
        """Nothing is taken in any more."""
        self._waiting: deque[Entry] = deque()
        self._with_store: Sequence[Entry] = ()
        self._taken_at = 0.0

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._waiting)

    @property
    def idle(self) -> bool:
        """Nothing waits, and the store has nothing."""
        return not self._waiting and not self._with_store

    def add(self, entry: Entry) -> None:
        """Take in an entry; to be called with the lock held."""
        self._waiting.append(entry)

    def linger(self) -> float:
        """Seconds for which what waits may go on waiting for a record that shares its commit; 0 is none."""
        with self.lock:  # Others hand in while we look.
            if self.closing or not self._waiting or not all(entry.linger for entry in self._waiting):
                return 0.0
            return max(0.0, self._waiting[0].since + LINGER - time.monotonic())

    def take(self) -> list[Entry]:
        """The next batch, which the store is about to get."""
        batch: list[Entry] = []
        size = 0
        with self.lock:
            waiting = self._waiting
            while waiting and (not batch or size + len(waiting[0].commands) <= BATCH_LIMIT):
                entry = waiting.popleft()
                size += len(entry.commands)
                batch.append(entry)
            self._with_store, self._taken_at = batch, time.monotonic()
        return batch

    def returned(self, again: Sequence[Entry] = ()) -> None:
        """The store is through with the batch; ``again`` of it has to be tried once more, before all others."""
        with self.lock:
            self._with_store = ()
            self._waiting.extendleft(reversed(again))

    def take_late(self) -> list[Entry]:
        """Those whose time is over, where the store has not answered for a while. What it has, it may still do."""
        now = time.monotonic()
        with self.lock:
            if not self._with_store or now - self._taken_at < STUCK:
                return []
            waiting = (entry for entry in (*self._with_store, *self._waiting) if not entry.answered)
            late = [entry for entry in waiting if entry.until and entry.is_over(now)]
            for entry in late:
                with contextlib.suppress(ValueError):  # It is with the store.
                    self._waiting.remove(entry)
            return late

    def close(self) -> None:
        """Take in nothing more; what is here is still committed."""
        with self.lock:
            self.closing = True
            self.more.notify_all()

    def empty(self) -> list[Entry]:
        """Give up everything that is here."""
        with self.lock:
            rest = [*self._with_store, *self._waiting]
            self._with_store = ()
            self._waiting.clear()
            return rest
