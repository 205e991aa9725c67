"""``python -m benchmarks.peers``: the throughput shapes on effectlog and its peers, with their guarantees."""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.throughput.figures import Rate, machine

if TYPE_CHECKING:
    from collections.abc import Iterator

_PEERS = {"effectlog": "ours", "dbos": "dbos_peer", "huey": "huey_peer", "litequeue": "litequeue_peer"}
_SHAPES = ("side_by_side", "sequence")


def main(arguments: list[str] | None = None) -> int:
    """Measure whatever is installed, in turn, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=main.__doc__)
    parser.add_argument("--runs", type=int, default=2000, help="runs of five effects each, 100 at a time")
    parser.add_argument("--effects", type=int, default=1000, help="effects of the sequence")
    parser.add_argument("--repetitions", type=int, default=3, metavar="N")
    parser.add_argument("--measure", nargs=2, metavar=("PEER", "SHAPE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        peer, shape = options.measure
        print(json.dumps(asdict(_measured(peer, shape, options.runs, options.effects))))
        return 0
    present = [peer for peer in _PEERS if importlib.util.find_spec(peer)]
    print(
        "\n".join(
            _report(
                present, options.repetitions, ["--runs", str(options.runs), "--effects", str(options.effects)]
            )
        )
    )
    missing = [peer for peer in _PEERS if peer not in present]
    if missing:
        print(f"\nNot installed, so not measured: {', '.join(missing)} (pip install {' '.join(missing)})")
    return 0


def _measured(peer: str, shape: str, runs: int, effects: int) -> Rate:
    module: Any = import_module(f"benchmarks.peers.{_PEERS[peer]}")
    with tempfile.TemporaryDirectory(prefix="effectlog-peers-", ignore_cleanup_errors=True) as folder:
        if shape == "sequence":
            rate: Rate = module.sequence(Path(folder), effects)
        else:
            rate = module.side_by_side(Path(folder), runs, 5)
        return rate


def _report(peers: list[str], repetitions: int, sizes: list[str]) -> Iterator[str]:
    rates: dict[tuple[str, str], list[Rate]] = {}
    for _ in range(repetitions):
        for peer in peers:
            for shape in _SHAPES:
                rates.setdefault((peer, shape), []).append(_in_own_process(peer, shape, sizes))
    yield "| | side by side, effects/s | in sequence, effects/s | CPU µs an effect | *started* durable before the call | fsync | after a crash in the call |"
    yield "|---|---|---|---|---|---|---|"
    for peer in peers:
        module: Any = import_module(f"benchmarks.peers.{_PEERS[peer]}")
        speeds = [f"{median(r.per_second for r in rates[peer, shape]):,.0f}" for shape in _SHAPES]
        cpu = " / ".join(f"{median(r.cpu_us for r in rates[peer, shape]):,.0f}" for shape in _SHAPES)
        yield f"| {peer} {version(peer)} | {' | '.join(speeds)} | {cpu} | {module.STARTED} | {module.FSYNC} | {module.AFTER_CRASH} |"
    yield ""
    yield ", ".join(f"{key} {value}" for key, value in machine().items())


def _in_own_process(peer: str, shape: str, sizes: list[str]) -> Rate:
    command = [sys.executable, "-m", "benchmarks.peers", "--measure", peer, shape, *sizes]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    return Rate(**json.loads(told.stdout.splitlines()[-1]))


if __name__ == "__main__":
    sys.exit(main())
