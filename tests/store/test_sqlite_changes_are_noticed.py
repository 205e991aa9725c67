"""Danger: what another process commits stays unseen, or seeing it costs a waiting worker a part of its core."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from effectlog.store.sqlite import change_watch, inotify
from effectlog.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SOON = 0.5
"""Seconds, for a busy machine; on an idle one it takes milliseconds."""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "runs.db")
    await store.open()
    yield store
    await store.close()


def _commit(store: SqliteStore) -> float:
    """Somebody else commits; when."""
    with closing(sqlite3.connect(store._path)) as other, other:
        other.execute("UPDATE effectlog_migrations SET mark = ?", (str(time.monotonic()),))
    return time.monotonic()


async def _noticed(store: SqliteStore) -> float:
    """Seconds from a commit until the store tells of it."""
    waiting = asyncio.ensure_future(store.changed())
    await asyncio.sleep(2 * change_watch.POLL_INTERVAL)
    assert not waiting.done(), "told of a change that nobody made"
    committed = _commit(store)
    await waiting
    return time.monotonic() - committed


def _as_told_by(monkeypatch: pytest.MonkeyPatch, kind: str, folder: Path) -> None:
    if kind == "looking":
        monkeypatch.setattr(change_watch, "watch_writes", lambda _: None)
    elif kind == "deaf":
        (folder / "nobody writes here").touch()
        watch = inotify.watch_writes(str(folder / "nobody writes here"))
        monkeypatch.setattr(change_watch, "watch_writes", lambda _: watch)


@pytest.mark.timed
@pytest.mark.parametrize("kind", ["listening", "looking", "deaf"])
async def test_each_commit_is_noticed_however_it_is_told(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    _as_told_by(monkeypatch, kind, tmp_path)
    await store.changed()  # Before the first look anything may have changed.
    first = await _noticed(store)
    assert first < SOON + (change_watch.SILENCE if kind == "deaf" else 0.0)
    later = [await _noticed(store) for _ in range(5)]
    print(f"first {first * 1000:.0f} ms, later {max(later) * 1000:.0f} ms")
    assert sorted(later)[2] < SOON, "it went on trusting a watch that tells nothing"


@pytest.mark.timed
async def test_a_commit_long_after_its_writes_is_noticed(store: SqliteStore) -> None:
    await store.changed()
    with closing(sqlite3.connect(store._path, isolation_level=None)) as other:
        other.execute("PRAGMA cache_size = 5")  # Pages go to the WAL before the commit.
        other.execute("BEGIN IMMEDIATE")
        other.execute("CREATE TABLE large (value BLOB)")
        other.execute("INSERT INTO large SELECT zeroblob(1000000)")
        waiting = asyncio.ensure_future(store.changed())
        await asyncio.sleep(0.3)
        assert not waiting.done()
        other.execute("COMMIT")
        async with asyncio.timeout(SOON):
            await waiting


@pytest.mark.timed
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of writes")
async def test_a_commit_whose_write_was_told_of_with_another_ones_is_noticed(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two processes have written when the watch looks, and only the first one's commit can be seen by then."""
    told_of = tmp_path / "told of"
    told_of.touch()
    watch = inotify.watch_writes(str(told_of))
    monkeypatch.setattr(change_watch, "watch_writes", lambda _: watch)
    await store.changed()
    _commit(store)
    told_of.write_text("both have written", encoding="utf-8")
    await store.changed()
    await asyncio.sleep(0.2)
    assert await _noticed(store) < SOON


@pytest.mark.timed
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of writes")
async def test_while_nobody_writes_nobody_looks(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    really = change_watch._data_version

    def counted(connection: Any) -> int:
        nonlocal looks
        looks += 1
        return really(connection)

    monkeypatch.setattr(change_watch, "_data_version", counted)
    await store.changed()
    await asyncio.sleep(2 * change_watch.POLL_INTERVAL)
    before = looks
    await asyncio.sleep(1.5)
    assert looks - before <= 3


@pytest.mark.timed
async def test_closing_waits_for_no_watch(store: SqliteStore) -> None:
    await store.changed()
    begun = time.monotonic()
    await store.close()
    assert time.monotonic() - begun < SOON
