"""Huey: a task queue. It has no journal inside a task, so each effect is a task of its own here."""

from __future__ import annotations

import threading
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.throughput.figures import Rate

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = "huey"
STARTED = "no: taken off the queue before it runs"
FSYNC = "yes, asked for with fsync=True"
AFTER_CRASH = "a task that was under way is lost"


def _queue(folder: Path, name: str) -> Any:
    return import_module("huey").SqliteHuey(name, filename=str(folder / f"{name}.db"), fsync=True)


def _consumed(queue: Any, done: threading.Event, count: int, workers: int) -> Rate:
    consumer = queue.create_consumer(workers=workers, periodic=False, initial_delay=0.001, max_delay=0.01)
    began, cpu = time.perf_counter(), time.process_time()
    consumer.start()
    done.wait()
    rate = Rate(count, time.perf_counter() - began, time.process_time() - cpu)
    consumer.stop(graceful=True)
    return rate


def side_by_side(folder: Path, runs: int, effects: int) -> Rate:
    queue, done, count = _queue(folder, "side"), threading.Event(), runs * effects
    left, mutex = [count], threading.Lock()

    def trivial(number: int) -> int:
        with mutex:
            left[0] -= 1
        if not left[0]:
            done.set()
        return number

    task = queue.task()(trivial)
    for number in range(count):
        task(number)
    return _consumed(queue, done, count, 100)


def sequence(folder: Path, effects: int) -> Rate:
    queue, done = _queue(folder, "sequence"), threading.Event()

    def trivial(number: int) -> int:
        if number + 1 < effects:
            task(number + 1)
        else:
            done.set()
        return number

    task = queue.task()(trivial)
    task(0)
    return _consumed(queue, done, effects, 1)
