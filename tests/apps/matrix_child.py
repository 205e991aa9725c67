"""The worker that is killed or paused, in a process of its own: it stops every run at one point."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import matrix_tasks

from effectlog import EffectLog
from effectlog.store import commands as c
from effectlog.store.resolve import resolve_store
from effectlog.store.sqlite import store as sqlite


class Stop:
    """Counts who has reached the point, and tells the parent when everybody has."""

    def __init__(self, point: str, count: int, parent: Connection, go: Any) -> None:
        self.point = point
        self.count = count
        self._parent = parent
        self._go = go
        self._missing = count
        self._lock = threading.Lock()
        self._sent = threading.Barrier(count)

    def arrived(self, how_many: int) -> None:
        with self._lock:
            self._missing -= how_many
            if self._missing == 0:
                self._parent.send("reached")

    def here(self, how_many: int) -> None:
        self.arrived(how_many)
        self._go.wait()

    @contextmanager
    def around(self, commands: Sequence[c.Command]) -> Iterator[None]:
        """Called around each commit."""
        starts = sum(isinstance(command, c.StartEffect) for command in commands)
        completions = sum(
            isinstance(command, c.FinishEffect) and command.outcome is c.RequestOutcome.COMPLETED
            for command in commands
        )
        if starts and self.point == "before started":
            self.here(self.count)
        if completions and self.point == "before completed":
            self.here(self.count)
        yield
        if completions and self.point == "after completed":
            self.arrived(completions)

    def pause(self, point: str) -> None:
        """Called by the effects and the tasks."""
        if point == "accepted" and self.point == "before completed":
            self._sent.wait()  # All have been sent before the first result is recorded.
        if point == "after effect" and self.point == "after completed":
            self._go.wait()
        elif point == self.point and not self._go.is_set():
            self.here(1)


def stopping(store: Any, stop: Stop) -> Any:
    """Make a store's commits stop right before or right after a kind of record."""
    if isinstance(store, sqlite.SqliteStore):
        batch = sqlite.apply_batch

        def stopping_batch(*how: Any) -> list[Any]:
            with stop.around(how[-1]):
                return batch(*how)

        sqlite.apply_batch = stopping_batch
        return store
    apply = store.apply

    async def stopping_apply(commands: Sequence[c.Command]) -> list[Any]:
        with stop.around(commands):
            outcomes: list[Any] = await apply(commands)
        return outcomes

    store.apply = stopping_apply
    return store


def main(
    path: str, form: str, point: str, urls: dict[Any, str], lease: float, parent: Connection, go: Any
) -> None:
    stop = Stop(point, len(urls), parent, go)
    matrix_tasks.urls.update({matrix_tasks.Cell(*cell): url for cell, url in urls.items()})
    matrix_tasks.pause = stop.pause
    asyncio.run(work(stopping(resolve_store(path), stop), form, lease, len(urls)))


async def work(store: Any, form: str, lease: float, count: int) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2 * count))
    log = EffectLog(store, lease=lease, check_store=False)
    async with log, log.worker(name="A", tasks=[matrix_tasks.TASKS[form]], concurrency=2 * count):
        await asyncio.Event().wait()
