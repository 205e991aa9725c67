"""The check at open is skipped only where it was passed, or it protects nobody."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from effectlog.errors import StoreRefused
from effectlog.store import commands as c
from effectlog.store.probe import prove
from effectlog.store.protocol import RunFilter
from effectlog.store.rows import NewRun
from effectlog.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from effectlog.store.dry_run import Stage


class Counting(SqliteStore):
    """Somebody's own class, though it changes nothing."""

    commits = 0

    async def apply(self, commands: Sequence[c.Command]) -> list[c.Outcome]:
        self.commits += 1
        return await super().apply(commands)


class Generous(SqliteStore):
    """Gives anybody a run that is being executed."""

    async def apply(self, commands: Sequence[c.Command]) -> list[c.Outcome]:
        outcomes = await super().apply(commands)
        runs = [await self.get(listed.row.id) for listed in await self.find(RunFilter())]
        return [c.Claimed(tuple(runs), 0.0) if isinstance(o, c.Claimed) else o for o in outcomes]


async def test_a_built_in_store_is_checked_once_for_each_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rehearsals = []
    original = SqliteStore.dry_run

    async def dry_run(self: SqliteStore, use: Any) -> Any:
        rehearsals.append(use)
        return await original(self, use)

    monkeypatch.setattr(SqliteStore, "dry_run", dry_run)
    for _ in range(2):
        store = SqliteStore(tmp_path / "effectlog.db")
        await store.open()
        await prove(store)
        assert await store.find(RunFilter()) == [], "the check left something behind"
        await store.close()
        assert len(rehearsals) == 1


async def test_a_process_that_dies_in_the_check_leaves_nothing_of_it_to_others(tmp_path: Path) -> None:
    store, other = (SqliteStore(tmp_path / "effectlog.db") for _ in range(2))
    await store.open()
    await other.open()
    seen: list[int] = []

    async def look(stage: Stage) -> None:
        for command in _check_in_the_middle():
            await stage.apply([command])
            assert await stage.get("scratch") is not None
            seen.append(len(await other.find(RunFilter())))

    await store.dry_run(look)
    assert seen == [0, 0]
    assert await store.find(RunFilter()) == []
    assert await store.apply([c.Subscribe(("x",), ())]) == [c.Done()], "the write lock was kept"
    await other.close()
    await store.close()


async def test_a_check_that_fails_or_is_cancelled_is_rolled_back(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "effectlog.db")
    await store.open()
    under_way = asyncio.Event()

    async def fail(stage: Stage) -> None:
        await stage.apply(_check_in_the_middle())
        raise ZeroDivisionError

    async def hang(stage: Stage) -> None:
        await stage.apply(_check_in_the_middle())
        under_way.set()
        await asyncio.Event().wait()

    with pytest.raises(ZeroDivisionError):
        await store.dry_run(fail)
    hanging = asyncio.create_task(store.dry_run(hang))
    await under_way.wait()
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    assert await store.find(RunFilter()) == []
    assert await store.apply([c.Subscribe(("x",), ())]) == [c.Done()]
    await store.close()


def _check_in_the_middle() -> list[c.Command]:
    create = c.CreateRuns((NewRun(id="scratch", task="scratch", args=b"[]"),), "scratch")
    return [create, c.Claim("owner", "probe", 60.0, (c.TaskLimit(("scratch",)),), 1)]


async def test_anybody_elses_store_is_checked_at_each_open(tmp_path: Path) -> None:
    built_in = SqliteStore(tmp_path / "effectlog.db")
    await built_in.open()
    await prove(built_in)
    await built_in.close()
    for _ in range(2):
        store = Counting(tmp_path / "effectlog.db")
        await store.open()
        await prove(store)
        await store.close()
        assert store.commits > 0


async def test_a_store_that_fails_is_not_marked_and_keeps_no_scratch_run(tmp_path: Path) -> None:
    store = Generous(tmp_path / "effectlog.db")
    await store.open()
    with pytest.raises(StoreRefused, match="a live lease is respected") as refused:
        await prove(store)
    assert "two workers would execute one run" in str(refused.value)
    assert await store.mark() is None
    assert await store.find(RunFilter()) == []
    await store.close()
