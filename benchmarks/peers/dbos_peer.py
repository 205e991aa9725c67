"""DBOS Transact: durable functions, on its SQLite system database as it comes."""

from __future__ import annotations

import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.throughput.figures import Rate

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = "dbos"
STARTED = "no: recorded once it has ended"
FSYNC = "yes, rollback journal (SQLite's defaults)"
AFTER_CRASH = "a function that was under way runs again, unannounced"


def _launched(folder: Path) -> Any:
    dbos = import_module("dbos")
    url = f"sqlite:///{folder / 'dbos.sqlite'}"
    dbos.DBOS(
        config={"name": "peer", "system_database_url": url, "log_level": "ERROR", "max_executor_threads": 100}
    )
    return dbos.DBOS


def _flow(durable: Any) -> Any:
    def trivial(number: int) -> int:
        return number

    recorded = durable.step()(trivial)

    def few(effects: int) -> int:
        for number in range(effects):
            recorded(number)
        return effects

    return durable.workflow()(few)


def _measured(folder: Path, runs: int, effects: int) -> Rate:
    durable = _launched(folder)
    flow = _flow(durable)
    durable.launch()
    began, cpu = time.perf_counter(), time.process_time()
    handles = [durable.start_workflow(flow, effects) for _ in range(runs)]
    for handle in handles:
        handle.get_result()
    rate = Rate(runs * effects, time.perf_counter() - began, time.process_time() - cpu)
    durable.destroy()
    return rate


def side_by_side(folder: Path, runs: int, effects: int) -> Rate:
    """Enqueueing is part of starting there, so it is measured with the rest."""
    return _measured(folder, runs, effects)


def sequence(folder: Path, effects: int) -> Rate:
    return _measured(folder, 1, effects)
