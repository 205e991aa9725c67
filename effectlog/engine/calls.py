"""Others' coroutines on the engine's loop, such as a store's reads: each is answered, whatever happens.

The invariant: once ``end`` has returned, none is under way, and those that were stopped know why.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from effectlog.errors import StoreClosed, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from weakref import WeakSet

T = TypeVar("T")


class Calls:
    """The calls of one opening of a store; what it raises is noted in ``errors``."""

    def __init__(self, closed: Callable[[], StoreClosed], errors: WeakSet[StoreError]) -> None:
        self._closed = closed
        self._errors = errors
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ended = False

    async def answered(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns, or why we stopped it. To be run as a separate task."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - as said above
        self._tasks.add(task)
        try:
            return await coroutine
        except StoreError as error:
            self._errors.add(error)
            raise
        except asyncio.CancelledError:
            if self._ended:
                raise self._closed() from None
            raise
        finally:
            self._tasks.discard(task)

    async def end(self) -> None:
        """Stop all that are under way, and those that were handed in before."""
        for _ in range(2):
            await asyncio.sleep(0)  # What was called before the door closed begins to run.
        self._ended = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
