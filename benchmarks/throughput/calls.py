"""Function calls that one more effect costs, by thread: a figure that no load on the machine can blur."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.throughput.embedded import side_by_side
from benchmarks.throughput.figures import Figure

if TYPE_CHECKING:
    from types import FrameType

_RUNS = 200
_FEW, _MORE = 5, 25


def measure_calls() -> Figure:
    """Compare runs of few effects with runs of more: what is left is the effects' own."""
    few, more = _counted(_FEW), _counted(_MORE)
    each = {thread: (more[thread] - few[thread]) / _RUNS / (_MORE - _FEW) for thread in more}
    told = [
        f"{thread} {count:.0f}"
        for thread, count in sorted(each.items(), key=lambda item: -item[1])
        if count >= 1
    ]
    name = "function calls an effect (Python and C), by thread"
    return Figure(name, f"{sum(each.values()):.0f}: {', '.join(told)}", each=list(each.values()))


def _counted(effects: int) -> Counter[str]:
    counts: Counter[str] = Counter()

    def count(frame: FrameType, event: str, arg: Any) -> None:  # noqa: ARG001 - the interpreter's
        if event in ("call", "c_call"):
            counts[_role(threading.current_thread().name)] += 1

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(side_by_side(Path(folder), _RUNS, effects, 100))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return counts


def _role(thread: str) -> str:
    if thread == "MainThread":
        return "user's loop"
    return "engine" if "engine" in thread else "store"
