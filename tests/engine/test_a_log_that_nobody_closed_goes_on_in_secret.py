"""Danger: a log that is dropped keeps its threads and its store open, and nobody is told."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from effectlog import EffectLog, durable_task

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@durable_task(name="unclosed.task")
def task() -> int:
    return 1


def ours() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if "effectlog" in thread.name}


def gone(before: set[threading.Thread]) -> bool:
    """Within seconds: the threads end by themselves once they are told to."""
    deadline = time.monotonic() + 20
    while ours() - before and time.monotonic() < deadline:
        time.sleep(0.01)
    return not ours() - before


@contextmanager
def collected() -> Iterator[None]:
    """Whatever is dropped inside warns, at the line that made it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
        gc.collect()
    (warning,) = [one for one in caught if one.category is ResourceWarning]
    assert "was never closed" in str(warning.message)
    assert warning.filename == __file__


@pytest.mark.parametrize("face", ["sync", "async"])
def test_it_is_warned_of_where_it_was_made_and_its_threads_end(tmp_path: Path, face: str) -> None:
    before = ours()

    def drop() -> None:
        log = EffectLog(tmp_path / "o.db")
        if face == "sync":
            log.__enter__()
            log.sync.enqueue(task)
        else:
            asyncio.run(log.__aenter__())

    with collected():
        drop()
    assert gone(before)
    with EffectLog(tmp_path / "o.db") as log:
        assert len(log.sync.list_runs()) == (1 if face == "sync" else 0)


@pytest.mark.parametrize("kept", ["run", "worker"])
def test_a_handle_or_a_worker_that_is_still_there_keeps_it_open(tmp_path: Path, kept: str) -> None:
    def made() -> Any:
        log = EffectLog(tmp_path / "o.db").__enter__()
        return log.sync.enqueue(task) if kept == "run" else log.sync.worker()

    before = ours()
    held = [made()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gc.collect()
        assert kept == "worker" or held[0].record().state == "pending"
    with collected():
        held.clear()
    assert gone(before)


def test_a_closed_one_is_not_warned_of(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with EffectLog(tmp_path / "o.db") as log:
                log.sync.enqueue(task)
            del log
            gc.collect()


def test_the_end_of_the_process_warns_too_and_loses_nothing(tmp_path: Path) -> None:
    script = (
        "import sys; from effectlog import EffectLog, durable_task\n"
        "@durable_task(name='unclosed.task')\ndef task(): ...\n"
        "log = EffectLog(sys.argv[1]).__enter__()\n"
        "log.sync.enqueue(task)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "default::ResourceWarning", "-c", script, str(tmp_path / "o.db")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "ResourceWarning: the log on" in done.stderr
    assert "Traceback" not in done.stderr
    with EffectLog(tmp_path / "o.db") as log:
        assert len(log.sync.list_runs()) == 1
