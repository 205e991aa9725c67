"""``python -m benchmarks.throughput``: every figure beside the store's own limit, as a Markdown table or JSON."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.throughput import calls, embedded, processes
from benchmarks.throughput.figures import Figure, machine, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print a table with ratios and the machine."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=main.__doc__)
    parser.add_argument("--repetitions", type=int, default=5, metavar="N")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, to see that it runs")
    parser.add_argument(
        "--only", nargs="+", choices=sorted(_MEASURES), metavar="FIGURE", help=", ".join(_MEASURES)
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--folder", type=Path, help="where the stores go; by default a temporary folder")
    options = parser.parse_args(arguments)
    where = machine()
    with tempfile.TemporaryDirectory(prefix="effectlog-bench-", dir=options.folder) as folder:
        size = _Size(Path(folder), options.repetitions, 10 if options.quick else 1)
        figures = list(_measured(size, options.only or list(_MEASURES), quiet=options.json))
    if options.json:
        print(json.dumps({"machine": where, "figures": [asdict(figure) for figure in figures]}, indent=1))
    else:
        print("\n".join([*table(figures), "", ", ".join(f"{key} {value}" for key, value in where.items())]))
    return 0


class _Size:
    def __init__(self, folder: Path, repetitions: int, divisor: int) -> None:
        self.folder = folder
        self.repetitions = repetitions
        self.divisor = divisor

    def of(self, count: int) -> int:
        return count // self.divisor


_MEASURES: dict[str, Callable[[_Size], list[Figure]]] = {
    "concurrent": lambda s: [embedded.measure_side_by_side(s.folder, s.repetitions, s.of(2000))],
    "sequence": lambda s: [embedded.measure_sequence(s.folder, s.repetitions, s.of(1000))],
    "replay": lambda s: [embedded.measure_replay(s.folder, s.repetitions, s.of(1000))],
    "calls": lambda _: [calls.measure_calls()],
    "outside": lambda s: [embedded.measure_outside(s.repetitions)],
    "import": lambda s: [processes.measure_import(3 * s.repetitions)],
    "takeover": lambda s: [processes.measure_takeover(s.folder, s.repetitions)],
    "idle": lambda s: processes.measure_idle_worker(s.folder, s.of(200), s.of(100) / 10),
}


def _measured(size: _Size, names: list[str], *, quiet: bool) -> Iterator[Figure]:
    for name in names:
        if not quiet:
            print(f"measuring {name} …", file=sys.stderr)
        yield from _MEASURES[name](size)


if __name__ == "__main__":
    sys.exit(main())
