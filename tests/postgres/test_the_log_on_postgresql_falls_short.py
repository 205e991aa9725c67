"""``EffectLog("postgresql://…")``: what holds on SQLite holds here, and a heartbeat waits for nobody."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import shop
from support.postgres_commands import psql

from effectlog import Applied, EffectLog, EffectState, RunHeld, RunState, StoreError
from effectlog.store.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    shop.requests.clear()
    shop.inside, shop.go_on = asyncio.Event(), asyncio.Event()
    yield
    shop.go_on.set()


async def test_runs_events_and_journals(postgres_database: str) -> None:
    async with EffectLog(postgres_database) as log:
        runs = await log.enqueue_many(shop.sell, [(f"o{n}",) for n in range(20)])
        (thanks,) = await log.emit("sold", "o1", idempotency_key="o1")
        async with log.worker():
            results = await asyncio.gather(*(run.result(timeout=30) for run in [*runs, thanks]))
        assert results == [*(f"charge of o{n}" for n in range(20)), "thanks for o1"]
        assert sorted(shop.requests) == sorted(f"o{n}" for n in range(20))
        assert await log.run(shop.sell.with_options(idempotency_key="x"), "x") == "charge of x"
        assert await log.run(shop.sell.with_options(idempotency_key="x"), "x") == "charge of x"
        assert shop.requests.count("x") == 1


async def test_a_doubt_is_held_and_decided(postgres_database: str) -> None:
    async with EffectLog(postgres_database) as log:
        run = await log.enqueue(shop.sell_and_mail, "a")
        async with log.worker():
            with pytest.raises(RunHeld):
                await run.result(timeout=30)
            await log.resolve(run.id, "mail:a", Applied("sent"), by="ann")
            assert await run.result(timeout=30) == "sent"
        record = await run.record()
    assert shop.requests == ["a", "mail a"]
    assert [effect.state for effect in record.effects] == [EffectState.COMPLETED] * 2
    assert record.effects[1].resolved_by == "ann"


@pytest.mark.paced
async def test_a_killed_workers_run_is_taken_over_long_before_its_lease_ends(postgres_database: str) -> None:
    async with EffectLog(postgres_database, lease=60.0) as log:
        run = await log.enqueue(shop.slowly)
        script = str(Path(shop.__file__))
        command = [sys.executable, script, postgres_database, "hang"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            assert await asyncio.to_thread(worker.stdout.readline) == "inside\n"
            worker.kill()
            worker.wait()
            killed = time.monotonic()
            async with log.worker(tasks=[shop.slowly]):
                assert await run.result(timeout=30) == "done"
            assert time.monotonic() - killed < 10, "it waited for the lease"
        record = await run.record()
    assert [attempt.outcome for attempt in record.attempts] == ["expired", "succeeded"]
    assert record.effects[0].requests == 2


async def _keep_trying(log: EffectLog, *, until: float) -> int:
    """User traffic that is stuck, one transaction after the other; gives how many failed."""
    failed = 0
    while time.monotonic() < until:
        try:
            await log.enqueue(shop.sell.with_options(idempotency_key="k"), "a")
        except StoreError:
            failed += 1
    return failed


@pytest.mark.paced
async def test_a_heartbeat_does_not_wait_for_user_traffic(postgres_database: str) -> None:
    """Somebody keeps a table of user traffic locked for longer than the lease: what only waits keeps its run."""
    async with EffectLog(postgres_database, lease=3.0) as log:
        run = await log.enqueue(shop.wait_inside)
        async with log.worker(tasks=[shop.wait_inside]):
            await asyncio.wait_for(shop.inside.wait(), 10)
            async with psql(postgres_database) as somebody:
                await somebody.execute(
                    "BEGIN; LOCK TABLE effectlog.idempotency_keys IN ACCESS EXCLUSIVE MODE"
                )
                until = time.monotonic() + 5.0
                failed = await asyncio.gather(*(_keep_trying(log, until=until) for _ in range(3)))
                await somebody.execute("ROLLBACK")
            assert all(failed)
            shop.go_on.set()
            assert await run.result(timeout=30) == "over"
        assert len((await run.record()).attempts) == 1


@pytest.mark.paced
async def test_a_run_whose_row_is_kept_locked_is_not_believed_renewed(postgres_database: str) -> None:
    async with EffectLog(postgres_database, lease=1.0) as log:
        run = await log.enqueue(shop.wait_inside)
        async with log.worker():
            await asyncio.wait_for(shop.inside.wait(), 10)
            async with psql(postgres_database) as somebody:
                await somebody.execute(
                    f"BEGIN; SELECT 1 FROM effectlog.runs WHERE id = '{run.id}' FOR UPDATE"
                )
                shop.inside.clear()
                await asyncio.sleep(1.5)
                await somebody.execute("ROLLBACK")
            shop.go_on.set()
            assert await run.result(timeout=30) == "over"
        first, *_ = (await run.record()).attempts
    assert first.outcome == "expired", "the holder trusted a lease that nobody had renewed"


async def test_a_cancelled_run_and_a_list(postgres_database: str) -> None:
    async with EffectLog(postgres_database) as log:
        run = await log.enqueue(shop.wait_inside)
        async with log.worker():
            await asyncio.wait_for(shop.inside.wait(), 10)
            await run.cancel()
            while (await run.record()).state != RunState.CANCELLED:
                await asyncio.sleep(0.01)
        assert [record.id for record in await log.list_runs(state="cancelled", task=shop.wait_inside)] == [
            run.id
        ]
        assert await log.purge(0) == 1


async def test_a_log_with_a_schema_of_its_own(postgres_database: str) -> None:
    stores: list[Any] = [PostgresStore(postgres_database, schema=name) for name in ("first", "second")]
    async with EffectLog(stores[0]) as first, EffectLog(stores[1]) as second:
        run = await first.enqueue(shop.sell, "a")
        assert await second.list_runs() == []
        async with first.worker():
            assert await run.result(timeout=30) == "charge of a"
