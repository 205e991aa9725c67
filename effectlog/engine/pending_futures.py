"""Answers that a loop owes to other threads.

Leaf module. Whoever waits on a future asks nobody whether there still is a thread that answers it. The
invariant: once ``fail`` was called, no future that was or is added goes without an answer.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Owed:
    """The futures that one loop has yet to answer."""

    def __init__(self) -> None:
        self._futures: set[Future[Any]] = set()
        self._error: Callable[[], BaseException] | None = None

    def add(self, future: Future[T]) -> Future[T]:
        """Remember that this future waits for the loop."""
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        if self._error is not None:  # Asked last: a thread that ends meanwhile finds it, or is found here.
            self._answer(future)
        return future

    def fail(self, error: Callable[[], BaseException]) -> None:
        """The loop has ended: answer everything with an error."""
        self._error = error
        for future in list(self._futures):
            self._answer(future)

    def _answer(self, future: Future[Any]) -> None:
        assert self._error is not None  # noqa: S101 - set by ``fail``
        with contextlib.suppress(InvalidStateError):  # It was answered after all.
            future.set_exception(self._error())
