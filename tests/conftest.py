"""A busy machine fails no test: those that go by the real time get three tries, and those that measure it run alone.

A time that a test measures is that of the product plus whatever else the machine did meanwhile: noise only ever adds.
So the best of three tries is the honest estimate, for what is really too late is too late in each of them, and beside
a test marked ``timed`` this run does nothing else. One marked ``paced`` measures nothing, but a machine that stands
still for a moment makes it go another way: a short lease ends though its owner is alive. It gets three tries as well,
beside others. A try that was not the last is shown as a rerun; a hang is not tried again.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.postgres_server import postgres_database, postgres_schema, postgres_url

if TYPE_CHECKING:
    from collections.abc import Iterator

try:
    import fcntl
except ImportError:  # Windows, where nothing keeps the processes of a run apart.
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "postgres_database",
    "postgres_schema",
    "postgres_url",
]  # One server for the whole run of a process.

EXIT_PATIENCE = float(os.environ.get("EXIT_PATIENCE", "60"))
"""Seconds that a process of the run gets to end after its last test."""
TRIES = 3
TRIES_IN_CI = 2
"""Of every other test: a machine that is shared must not throw a submission away. A rerun is shown, and to be
looked into."""
room: list[ExitStack] = []
"""What this process holds of the room in which tests run; it keeps it from one timed test to the next."""


def pytest_configure() -> None:
    """A run that a shell started in the background ignores SIGINT, and so would all that its tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """A thread that waits for what a failed test never did must not keep the run from ending: it is shown, and left."""
    faulthandler.dump_traceback_later(EXIT_PATIENCE, exit=True)


def timed(item: pytest.Item | None) -> bool:
    return item is not None and item.get_closest_marker("timed") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    files = {path: number for number, path in enumerate(dict.fromkeys(item.path for item in items))}
    # One after the other: each time that one wants to be alone, everybody waits for the slowest.
    items.sort(key=lambda item: (files[item.path], timed(item)))
    others = TRIES_IN_CI if os.environ.get("CI") else 1
    for item in items:
        tries = TRIES if timed(item) or item.get_closest_marker("paced") else others
        if tries > 1:
            item.add_marker(pytest.mark.flaky(reruns=tries - 1, rerun_except="from pytest-timeout"))


@contextmanager
def _flock(path: Path, operation: int) -> Iterator[None]:
    """Unlocked by its word: a process that a test forked may have the file open for longer than the test takes."""
    with path.open("a") as file:
        fcntl.flock(file, operation)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # Outside of the test's time limit.
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Readers and writers over the processes of this run: a timed test writes, the others read."""
    if fcntl is None or not hasattr(item.config, "workerinput"):
        return (yield)
    if not room:
        folder = Path(item.config.option.basetemp).parent  # Shared by the processes of this run.
        # Whoever waits to be alone waits in the door, so that nobody else goes in meanwhile.
        with _flock(folder / "door", fcntl.LOCK_EX):
            room.append(ExitStack())
            room[0].enter_context(_flock(folder / "room", fcntl.LOCK_EX if timed(item) else fcntl.LOCK_SH))
    try:
        return (yield)
    finally:
        if not (timed(item) and timed(nextitem)):
            room.pop().close()
