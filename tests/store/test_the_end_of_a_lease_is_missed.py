"""Who takes over sleeps until the next lease ends: told a wrong time, it would come late, or look all the time."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from effectlog import EffectLog, durable_task
from effectlog.store import commands as c
from effectlog.store.postgres.store import PostgresStore
from effectlog.store.rows import NewRun
from effectlog.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "effectlog.db")
    database: str = request.getfixturevalue("postgres_database")
    return database


@contextlib.asynccontextmanager
async def opened(address: str) -> AsyncIterator[Any]:
    store: Any = PostgresStore(address) if address.startswith("postgresql") else SqliteStore(address)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def test_the_next_end_is_told_and_one_that_is_over_is_not_the_next(address: str) -> None:
    async with opened(address) as store:
        assert await store.next_lapse() is None
        for lease in (0.05, 30.0, 60.0):
            run = NewRun(f"run-{lease}", "task", b"[]")
            await store.apply([c.CreateRuns((run,), "task")])
            await store.apply([c.Claim("a", "a", lease, (), 1, run_id=run.id)])
        await asyncio.sleep(0.1)
        assert 20.0 < await store.next_lapse() <= 30.0


@durable_task
async def takes_over() -> str:
    return "done"


async def test_a_takeover_comes_right_after_the_lease(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("effectlog.worker.claim_loop.LEASE_INTERVAL", 30.0)
    monkeypatch.setattr("effectlog.worker.claim_loop.IDLE_INTERVAL", 30.0)
    async with EffectLog(address) as log:
        run = await log.enqueue(takes_over)
        async with opened(address) as store:
            await store.apply([c.Claim("gone", "gone", 1.0, (), 1, run_id=run.id)])
        async with log.worker():
            assert await run.result(timeout=10) == "done"
        first, second = (await run.record()).attempts
    assert 1.0 <= (second.started_at - first.started_at).total_seconds() < 10.0
