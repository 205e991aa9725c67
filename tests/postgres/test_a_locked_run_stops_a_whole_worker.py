"""A run without an owner whose row somebody keeps locked waits alone: workers go on with all others."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import pytest
from paused_shop import ends_at_once, waits_at_a
from support.postgres_commands import psql

from effectlog import EffectLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import asyncpg


LAPSE = """
UPDATE effectlog.runs SET state = 'running', attempt = 1, owner = 'gone', lease_expires = 1, lease_clock = 'server'
WHERE id = $1
"""
ATTEMPT = "INSERT INTO effectlog.attempts (run_id, number, owner, worker, started_at) VALUES ($1, 1, 'gone', 'A', 1)"


@contextlib.asynccontextmanager
async def lapsed_and_locked(run_id: str, url: str) -> AsyncIterator[asyncpg.Connection]:
    """The session that keeps the row of a run locked whose owner stopped renewing."""
    async with psql(url) as somebody:
        for statement in (LAPSE, ATTEMPT):
            await somebody.execute(statement, run_id)
        await somebody.execute("BEGIN")
        await somebody.execute("SELECT 1 FROM effectlog.runs WHERE id = $1 FOR UPDATE", run_id)
        yield somebody


@pytest.mark.paced
async def test_other_runs_are_claimed_meanwhile(
    postgres_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with EffectLog(postgres_database) as log:
        run = await log.enqueue(waits_at_a)
        async with lapsed_and_locked(run.id, postgres_database) as somebody, log.worker(name="B"):
            until = time.monotonic() + 4.0
            took = []
            while time.monotonic() < until:
                began = time.monotonic()
                assert await (await log.enqueue(ends_at_once)).result(timeout=10) == "B"
                took.append(time.monotonic() - began)
            assert sorted(took)[len(took) // 2] < 2.0, "it waited for the run that is locked"
            assert f"run {run.id} of" in caplog.text
            assert "kept locked by somebody else" in caplog.text
            await somebody.execute("ROLLBACK")
            assert await run.result(timeout=10) == "B"


async def test_log_run_waits_for_it(postgres_database: str) -> None:
    task = waits_at_a.with_options(idempotency_key="key")
    async with EffectLog(postgres_database) as log:
        run = await log.enqueue(task)
        async with lapsed_and_locked(run.id, postgres_database) as somebody:
            running = asyncio.ensure_future(log.run(task))
            done, _ = await asyncio.wait({running}, timeout=3.0)
            assert not done, "a row that is locked for a while is no failure of the run"
            await somebody.execute("ROLLBACK")
            assert await asyncio.wait_for(running, 20) != "A"
