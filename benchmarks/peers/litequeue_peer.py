"""litequeue: a queue in one table, without workers.

Each effect is a message: taken, executed, marked done.
"""

from __future__ import annotations

import time
from importlib import import_module
from typing import TYPE_CHECKING

from benchmarks.throughput.figures import Rate

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = "litequeue"
STARTED = "yes, the message is marked as taken"
FSYNC = "no (synchronous=NORMAL): the last commits can go at power failure"
AFTER_CRASH = "a message that was taken stays taken until somebody looks for it"


def side_by_side(folder: Path, runs: int, effects: int) -> Rate:
    """It offers nothing to do side by side, so one loop does it all."""
    return sequence(folder, runs * effects)


def sequence(folder: Path, effects: int) -> Rate:
    queue = import_module("litequeue").LiteQueue(str(folder / f"queue-{effects}.db"))
    for number in range(effects):
        queue.put(str(number))
    began, cpu = time.perf_counter(), time.process_time()
    while (message := queue.pop()) is not None:
        queue.done(message.message_id)
    rate = Rate(effects, time.perf_counter() - began, time.process_time() - cpu)
    queue.close()
    return rate
