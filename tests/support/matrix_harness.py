"""Plays one crash with every cell of the matrix at once, and tells what each destination and each run saw."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import matrix_child
import matrix_tasks
from matrix_tasks import LAG, TASKS, Cell

from effectlog import EffectLog, Run, RunFailed, RunHeld
from effectlog.testing.destinations import CountingDestination
from support.forked import prepared

Destinations = dict[Cell, CountingDestination]


class Seen(NamedTuple):
    """What counts: requests that reached the destination, effects it accepted, and where the run ended up."""

    requests: int
    effects: int
    state: str


@contextmanager
def destinations(cells: list[Cell]) -> Iterator[Destinations]:
    """One destination for each cell, known to the tasks of this process."""
    with ExitStack() as stack:
        found = {
            cell: CountingDestination(cell.kind, index_lag=LAG if cell.kind == "look_up" else None)
            for cell in cells
        }
        for destination in found.values():
            destination.__enter__()
        stack.callback(_close, list(found.values()))
        matrix_tasks.urls.update({cell: destination.url for cell, destination in found.items()})
        yield found


def _close(found: list[CountingDestination]) -> None:
    with ThreadPoolExecutor(len(found)) as pool:
        list(pool.map(lambda destination: destination.__exit__(), found))


class Owner:
    """Worker A, from its start to its end."""

    def __init__(self, path: str, form: str, point: str, found: Destinations, lease: float) -> None:
        self._path = path
        self._parent, child = prepared().Pipe(duplex=False)
        self._go = prepared().Event()
        urls = {tuple(cell): destination.url for cell, destination in found.items()}
        arguments = (path, form, point, urls, lease, child, self._go)
        self._process = prepared().Process(target=matrix_child.main, args=arguments, daemon=True)
        self._process.start()

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._parent.poll, 30), "worker A did not get to the point"
        self._parent.recv()

    def pause(self) -> None:
        """Stop it, and not in the middle of a write: a stopped process that locks the file is another story."""
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        while not _writable(self._path):
            os.kill(self._process.pid, signal.SIGCONT)
            time.sleep(0.005)
            os.kill(self._process.pid, signal.SIGSTOP)

    def wake(self) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGCONT)
        self._go.set()  # Afterwards: it waits until those who wait have heard it.

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def _writable(path: str) -> bool:
    with contextlib.closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        connection.execute("ROLLBACK")
        return True


@contextlib.contextmanager
def owner(path: str, form: str, point: str, found: Destinations, lease: float) -> Iterator[Owner]:
    worker = Owner(path, form, point, found, lease)
    try:
        yield worker
    finally:
        worker.kill()


async def enqueue(log: EffectLog, form: str, cells: list[Cell]) -> dict[Cell, Run[Any]]:
    return dict(zip(cells, await log.enqueue_many(TASKS[form], [tuple(cell) for cell in cells]), strict=True))


async def settled(runs: dict[Cell, Run[Any]]) -> None:
    """Wait until every run has ended or is held."""

    async def one(run: Run[Any]) -> None:
        with contextlib.suppress(RunHeld, RunFailed):
            await run.result(timeout=30)

    await asyncio.gather(*(one(run) for run in runs.values()))


async def seen(runs: dict[Cell, Run[Any]], found: Destinations) -> dict[Cell, Seen]:
    return {
        cell: Seen(len(found[cell].requests()), len(found[cell].effects()), str((await run.record()).state))
        for cell, run in runs.items()
    }


def wrong(actual: dict[Cell, Seen], expected: Callable[[Cell], Seen]) -> dict[Cell, tuple[Seen, Seen]]:
    """The cells that are not as expected: what was seen, and what should have been."""
    return {cell: (found, expected(cell)) for cell, found in actual.items() if found != expected(cell)}


def unsafe(actual: dict[Cell, Seen]) -> dict[Cell, Seen]:
    """The cells with a second effect although the design calls them safe."""
    return {cell: found for cell, found in actual.items() if cell.safe and found.effects > 1}
