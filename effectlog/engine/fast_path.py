"""Commits on the store's own thread, for stores that have one: two changes of thread fewer for each record.

All that can go wrong is left to the engine's loop: after a failure nothing is committed here until the loop
has dealt with it. The invariant: the two never commit at the same time, so that records keep their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from effectlog.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from effectlog.engine.batches import Batches, Failure
    from effectlog.engine.queue import SubmissionQueue
    from effectlog.store.protocol import Apply, Threaded


class FastPath:
    """The way from the inbox to the store without the engine's loop; ``store`` None where there is none.

    ``committed`` is called after each commit, and ``stopped`` when the loop has something to look at: both on
    the store's thread.
    """

    def __init__(
        self,
        store: Threaded | None,
        inbox: SubmissionQueue,
        batches: Batches,
        *,
        committed: Callable[[], None],
        stopped: Callable[[], None],
    ) -> None:
        self._store = store
        self._inbox = inbox
        self._batches = batches
        self._committed = committed
        self._stopped = stopped
        self._open = store is not None
        self._working = False
        self._failure: Failure | BaseException | None = None

    @property
    def resting(self) -> bool:
        """Nothing is being committed here, and no failure waits to be dealt with."""
        return not self._working and self._failure is None

    @property
    def is_open(self) -> bool:
        """Whether what is handed in goes this way."""
        return self._open

    def go(self) -> bool:
        """Commit what waits, with the inbox's lock held; False where the loop has to."""
        if not self._open:
            return False
        if self._working:
            self._inbox.more.notify()
            return True
        self._working = self._hand_over()
        return self._working

    def reopen(self) -> None:
        """The loop has dealt with everything that failed."""
        with self._inbox.lock:
            if not self._open and self._store is not None:
                self._open = True
                if self._inbox:
                    self.go()

    def take_failure(self) -> Failure | None:
        """What could not be committed here, once."""
        with self._inbox.lock:
            failure, self._failure = self._failure, None
        if isinstance(failure, BaseException):
            raise failure
        return failure

    def _hand_over(self) -> bool:
        assert self._store is not None  # noqa: S101 - it would not be open
        try:
            self._store.hand_over(self._commit)
        except StoreError:  # The loop asks the store itself, and learns why.
            self._open = False
        return self._open

    def _commit(self, apply: Apply) -> None:
        """Commit one batch. Each is handed over anew, so that others get their turn on the store's thread."""
        with self._inbox.lock:
            while (seconds := self._inbox.linger()) > 0:
                self._inbox.more.wait(seconds)
            batch = self._inbox.take()
        failure: Failure | BaseException | None
        try:
            failure = self._batches.apply_here(batch, apply)
        except BaseException as error:  # Ours. Nobody would see it here, so the loop ends the engine with it.
            failure = error
        if batch and failure is None:
            self._committed()
        with self._inbox.lock:
            if failure is not None:
                self._open = False
                self._failure = failure
            else:
                self._inbox.returned()
            self._working = failure is None and bool(self._inbox) and self._hand_over()
            if not self._open or (self._inbox.closing and not self._working):
                self._stopped()
