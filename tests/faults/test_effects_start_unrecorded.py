"""Danger: the store can't be written any more, and effects start without a record, or recorded ones are lost."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003 - a field of a dataclass
from typing import TYPE_CHECKING

import pytest

from effectlog import EffectLog, EffectState, NotApplied, Retry, RunState, StoreError, durable_task, effect
from effectlog.engine import queue
from effectlog.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable, Iterator

    from effectlog import Run

LEASE = 1.2


@dataclass
class Disk:
    """A disk of two megabytes that can be filled up and freed."""

    folder: Path

    @property
    def db(self) -> Path:
        return self.folder / "runs.db"

    def fill(self) -> None:
        with (self.folder / "filler").open("ab", buffering=0) as filler:
            for size in (65536, 4096, 512, 1):
                try:
                    while filler.write(b"x" * size) == size:
                        pass
                except OSError:
                    continue

    def free(self) -> None:
        (self.folder / "filler").unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a small disk of one's own takes Linux and root")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounted.returncode != 0:
        pytest.skip(f"mounting is not allowed here: {mounted.stderr.strip()}")
    yield Disk(folder)
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@dataclass
class Scene:
    """What happens between the effects of a run, and what they requested."""

    requested: list[str] = field(default_factory=list)
    before_second: Callable[[], object] = lambda: None
    inside_first: Callable[[], object] = lambda: None


scene = Scene()


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    scene.__init__()  # type: ignore[misc]
    # So that what could not be written is offered again at once.
    monkeypatch.setattr("effectlog.worker.outcome.GIVE_BACK_DELAY", 0.1)


@effect(key="first")
def first() -> str:
    scene.requested.append("first")
    scene.inside_first()
    return "one"


@effect(key="second")
def second() -> str:
    scene.requested.append("second")
    return "two"


@effect(key="careful", in_doubt="hold")
def careful() -> str:
    scene.requested.append("careful")
    scene.inside_first()
    return "three"


@durable_task(retry=Retry(delay=0.0))
def both() -> list[str]:
    value = first()
    scene.before_second()
    return [value, second()]


@durable_task(retry=Retry(delay=0.0))
def held() -> list[str]:
    return [careful(), second()]


@pytest.fixture
async def log(disk: Disk) -> AsyncIterator[EffectLog]:
    async with EffectLog(disk.db, lease=LEASE, check_store=False) as log, log.worker():
        yield log


async def refused(caplog: pytest.LogCaptureFixture, text: str) -> None:
    """Wait until the log has told that the store can't be written."""
    async with asyncio.timeout(20):
        while text not in caplog.text:
            await asyncio.sleep(0.01)


async def test_a_full_disk_before_started_keeps_the_effect_from_being_called(
    disk: Disk, log: EffectLog, caplog: pytest.LogCaptureFixture
) -> None:
    scene.before_second = lambda: (disk.fill(), setattr(scene, "before_second", lambda: None))
    run = await log.enqueue(both)
    await refused(caplog, "the disk is full")
    with pytest.raises(StoreError, match="disk is full"):
        await log.enqueue(both)
    assert scene.requested == ["first"]
    disk.free()
    assert await run.result(20) == ["one", "two"]
    assert scene.requested == ["first", "second"]
    assert len(await log.list_runs()) == 1, "an enqueue that was refused left a run"


async def test_a_full_disk_before_completed_loses_no_outcome(disk: Disk, log: EffectLog) -> None:
    scene.inside_first = disk.fill
    run = await log.enqueue(both)
    async with asyncio.timeout(20):
        while not scene.requested:
            await asyncio.sleep(0.01)
    await asyncio.sleep(LEASE / 4)
    assert scene.requested == ["first"], "an effect started over an outcome that is not recorded"
    disk.free()
    assert await run.result(20) == ["one", "two"]
    assert scene.requested == ["first", "second"]
    record = await run.record()
    assert [effect.requests for effect in record.effects] == [1, 1]


async def test_an_outcome_that_a_full_disk_swallowed_for_good_is_in_doubt(
    disk: Disk, log: EffectLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "LATE", 0.1)
    scene.inside_first = disk.fill
    run = await log.enqueue(held)
    async with asyncio.timeout(20):
        while not scene.requested:
            await asyncio.sleep(0.01)
    await asyncio.sleep(2 * LEASE)
    disk.free()
    assert await settled(run) is RunState.HELD
    record = await run.record()
    assert [(effect.key, effect.state, effect.in_doubt) for effect in record.effects] == [
        ("careful", EffectState.STARTED, True)
    ]
    assert scene.requested == ["careful"]
    scene.inside_first = lambda: None
    await log.resolve(run.id, "careful", NotApplied(), by="test")
    assert await run.result(20) == ["three", "two"]


async def settled(run: Run[object]) -> RunState:
    async with asyncio.timeout(20):
        while (state := (await run.record()).state) in (RunState.PENDING, RunState.RUNNING):
            await asyncio.sleep(0.02)
    return state


async def test_a_store_that_becomes_read_only_starts_no_effect_and_goes_on_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # What a file system that turns read-only makes SQLite say, said by SQLite itself.
    store = SqliteStore(tmp_path / "runs.db")

    def writable(yes: bool) -> None:
        def set_it(connection: sqlite3.Connection) -> None:
            connection.execute(f"PRAGMA query_only = {'OFF' if yes else 'ON'}")

        asyncio.run_coroutine_threadsafe(store._call(store._writer, set_it), engine_loop).result()

    async with EffectLog(store, lease=LEASE, check_store=False) as log, log.worker():
        engine_loop = log.administration.engine._loop
        assert engine_loop is not None
        scene.before_second = lambda: (writable(False), setattr(scene, "before_second", lambda: None))
        run = await log.enqueue(both)
        await refused(caplog, "it is read-only")
        with pytest.raises(StoreError, match="read-only; make the file and its folder writable"):
            await log.enqueue(both)
        assert scene.requested == ["first"]
        await asyncio.to_thread(writable, True)
        assert await run.result(20) == ["one", "two"]
    assert scene.requested == ["first", "second"]
