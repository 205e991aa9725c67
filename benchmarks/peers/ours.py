"""effectlog, in the shape of a peer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks.throughput import embedded

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.throughput.figures import Rate

PACKAGE = "effectlog"
STARTED = "yes, durable before the call"
FSYNC = "yes (WAL, synchronous=FULL)"
AFTER_CRASH = "in doubt: the declared policy decides, and the doubt is shown"


def side_by_side(folder: Path, runs: int, effects: int) -> Rate:
    return asyncio.run(embedded.side_by_side(folder, runs, effects, 100))


def sequence(folder: Path, effects: int) -> Rate:
    return asyncio.run(embedded.in_sequence(folder, effects))
