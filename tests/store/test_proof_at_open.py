"""The check at open is skipped only where it was passed, or it protects nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from effectlog import commands as c
from effectlog.errors import StoreRefused
from effectlog.store.probe import prove
from effectlog.store.protocol import RunFilter
from effectlog.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


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
        runs = await self.find(RunFilter())
        return [c.Claimed(tuple(runs), 0.0) if isinstance(o, c.Claimed) else o for o in outcomes]


async def test_a_built_in_store_is_checked_once_for_each_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied = []
    original = SqliteStore.apply

    async def apply(self: SqliteStore, commands: Sequence[c.Command]) -> list[c.Outcome]:
        applied.extend(commands)
        return await original(self, commands)

    monkeypatch.setattr(SqliteStore, "apply", apply)
    counts = []
    for _ in range(2):
        store = SqliteStore(tmp_path / "effectlog.db")
        await store.open()
        await prove(store)
        assert await store.find(RunFilter()) == [], "the check left something behind"
        await store.close()
        counts.append(len(applied))
    assert counts[0] == counts[1] > 0


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
