"""A measured figure, what it is compared with, and the table of all. Pure, but for reading the machine."""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Rate:
    """One measurement of something done many times."""

    count: int
    seconds: float
    cpu: float
    """Processor seconds of the whole process, all threads."""
    commits: int | None = None

    @property
    def per_second(self) -> float:
        return self.count / self.seconds

    @property
    def cpu_us(self) -> float:
        return self.cpu / self.count * 1e6


@dataclass(slots=True)
class Pair:
    """The same work by effectlog and by its floor, measured in turn."""

    ours: list[Rate] = field(default_factory=list)
    floor: list[Rate] = field(default_factory=list)

    def figure(self, name: str, unit: str, aim: str) -> Figure:
        ratios = [a.per_second / b.per_second for a, b in zip(self.ours, self.floor, strict=True)]
        return Figure(
            name,
            f"{median(r.per_second for r in self.ours):,.0f} {unit}",
            f"{median(r.per_second for r in self.floor):,.0f}",
            f"{median(ratios):.0%} ({min(ratios):.0%} to {max(ratios):.0%})",
            f"{median(r.cpu_us for r in self.ours):,.0f} / {median(r.cpu_us for r in self.floor):,.0f}",
            aim,
            [r.per_second for r in self.ours],
        )


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table."""

    name: str
    value: str
    floor: str = ""
    ratio: str = ""
    cpu_us: str = ""
    """Processor microseconds an effect, ours / the floor's."""
    aim: str = ""
    each: list[float] = field(default_factory=list)


def spread(values: Sequence[float], unit: str, digits: int = 0) -> str:
    """Median, least and greatest."""
    return f"{median(values):.{digits}f} {unit} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def table(figures: Sequence[Figure]) -> Iterator[str]:
    """The figures in Markdown."""
    yield "| | effectlog | the store's own limit | ratio | CPU µs an effect | aim |"
    yield "|---|---|---|---|---|---|"
    for f in figures:
        yield f"| {f.name} | {f.value} | {f.floor or '-'} | {f.ratio or '-'} | {f.cpu_us or '-'} | {f.aim or '-'} |"


def machine() -> dict[str, object]:
    """Where this was measured."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": sys.version.split()[0],
        "sqlite": sqlite3.sqlite_version,
        "load_before": [round(value, 1) for value in os.getloadavg()],
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown"
    )
