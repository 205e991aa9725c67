"""``python -m benchmarks.failure_window``: play every scenario in every form, and judge what came of it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.failure_window import analyzer
from benchmarks.failure_window.runner import ARTICLE, QUICK, ScenarioError, Times, play
from benchmarks.failure_window.scenarios import CASES, Case
from benchmarks.failure_window.worker import StoreAt
from effectlog.testing.destinations import CountingDestination

if TYPE_CHECKING:
    from collections.abc import Iterator

_SERVER = "EFFECTLOG_TEST_POSTGRES"


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is to be played."""

    cases: tuple[Case, ...]
    repetitions: int
    times: Times
    out: Path
    parallel: int


def main(arguments: list[str] | None = None) -> int:
    """Play, write records, aggregate, table and pictures.

    1 if anything came out differently than specified.
    """
    options = _parser().parse_args(arguments)
    experiment = Experiment(
        tuple(case for case in CASES if not options.only or {case.row, case.id} & set(options.only)),
        options.repetitions or (1 if options.quick else 5),
        QUICK if options.quick else ARTICLE,
        options.out,
        options.parallel,
    )
    for store in ("sqlite", "postgres") if options.store == "both" else (options.store,):
        with _server(store) as url:
            asyncio.run(_play_all(experiment, store, url))
    return analyzer.report(experiment.out, strict=options.strict)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.failure_window", description=main.__doc__)
    parser.add_argument("--quick", action="store_true", help="one repetition each, with a short lease")
    parser.add_argument("--store", choices=("sqlite", "postgres", "both"), default="sqlite")
    parser.add_argument(
        "--out", type=Path, default=Path("build/failure_window"), help="folder, emptied first"
    )
    parser.add_argument("--only", nargs="+", metavar="ROW", help="rows (S4) or cases (S4-resend) to play")
    parser.add_argument("--repetitions", type=int, metavar="N")
    parser.add_argument(
        "--parallel", type=int, default=6, metavar="N", help="runs at a time, of which all but one wait"
    )
    parser.add_argument(
        "--strict", action="store_true", help="slow takeovers count as wrong; for a quiet machine"
    )
    return parser


@contextlib.contextmanager
def _server(store: str) -> Iterator[str | None]:
    """A PostgreSQL server where one is needed: the one that the environment names, or the tests' own."""
    if store == "sqlite" or _SERVER in os.environ:
        yield None if store == "sqlite" else os.environ[_SERVER]
        return
    from tests.support.postgres_server import Server  # noqa: PLC0415 - only this store needs it

    server = Server().start()
    try:
        yield server.url
    finally:
        server.stop()


async def _play_all(experiment: Experiment, store: str, url: str | None) -> None:
    folder = experiment.out / "runs" / store
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    room, quiet = asyncio.Semaphore(experiment.parallel), asyncio.Lock()
    began = time.monotonic()
    with CountingDestination("replay", process=True, db=folder / "destination.db") as destination:

        async def one(case: Case, repetition: int) -> None:
            async with room:
                at = _place(folder / f"{case.id}-{repetition}", url, forgetful=case.forgetful)
                try:
                    record = await play(case, repetition, at, destination, experiment.times, quiet)
                except ScenarioError as error:
                    record = {"case": case.id, "repetition": repetition, "failed": str(error)}
                _save(record | {"store": store}, folder / f"{case.id}-{repetition}")

        async with asyncio.TaskGroup() as group:
            for repetition in range(1, experiment.repetitions + 1):
                for case in experiment.cases:
                    group.create_task(one(case, repetition))
    count = len(experiment.cases) * experiment.repetitions
    print(f"{store}: {count} runs in {time.monotonic() - began:.0f} s, {experiment.parallel} at a time")


def _place(folder: Path, url: str | None, *, forgetful: bool) -> StoreAt:
    folder.mkdir()
    if url is None:
        return StoreAt(str(folder / "store.db"), forgetful=forgetful)
    return StoreAt(url, schema=f"run_{uuid.uuid4().hex[:12]}", forgetful=forgetful)


def _save(record: dict[str, Any], folder: Path) -> None:
    (folder / "record.json").write_text(
        json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    sys.exit(main())
