"""A process that is stopped in the middle of a transaction keeps its locks: nobody may wait for it to go on."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from paused_shop import ends_at_once, one_at_a_time, waits_at_a
from support.postgres_commands import do, psql, running, start
from support.stopping import stopping

from effectlog import EffectLog, StoreError
from effectlog.store.postgres.stalled import KEEPS_A_RUN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from effectlog.store.postgres.connections import Connection
    from effectlog.store.postgres.store import PostgresStore

LEASE = 1.5
TASKS = [waits_at_a, ends_at_once, one_at_a_time]


async def recorded_expiry(url: str, run_id: str) -> float:
    async with psql(url) as somebody:
        return float(
            await somebody.fetchval("SELECT lease_expires FROM effectlog.runs WHERE id = $1", run_id)
        )


@pytest.mark.paced
@pytest.mark.parametrize(
    "point", ["lock_runs:after", "update_run:prepared", "update_run:unread", "update_run:after"]
)
async def test_in_a_heartbeat_its_run_is_taken_over_when_the_lease_ends(
    postgres_database: str, point: str
) -> None:
    async with (
        EffectLog(postgres_database, lease=LEASE) as log,
        stopping(postgres_database, point, lease=LEASE) as a,
    ):
        run = await log.enqueue(waits_at_a)
        await a.told("inside")
        async with log.worker(name="B", tasks=TASKS):
            await a.stops()
            expiry = await recorded_expiry(postgres_database, run.id)
            assert await run.result(timeout=20) == "B"
            a.go_on()
            # What it was doing is lost, and it is none the worse for it.
        record = await run.record()
        after = await log.enqueue(ends_at_once)
        assert await after.result(timeout=20) == "A"
    assert [attempt.outcome for attempt in record.attempts] == ["expired", "succeeded"]
    late = record.attempts[1].started_at.timestamp() - expiry
    assert 0 <= late < 1.5, "nobody waits for the server's time-outs"


@pytest.mark.paced
@pytest.mark.parametrize("point", ["claimable:after", "insert_attempt:prepared"])
@pytest.mark.parametrize("task", [ends_at_once, one_at_a_time], ids=["unlimited", "limited"])
async def test_in_a_claim_somebody_else_executes_what_it_had_chosen(
    postgres_database: str, task: Any, point: str
) -> None:
    async with EffectLog(postgres_database, lease=60.0) as log:
        async with stopping(postgres_database, point, lease=LEASE) as a:
            a.order("stop")
            await a.told("stop done")
            run = await log.enqueue(task)
            await a.told("stopping")
            began = time.monotonic()
            async with log.worker(name="B", tasks=TASKS):
                assert await run.result(timeout=20) == "B"
            assert time.monotonic() - began < 4.0, "it waited for the server's time-outs"
            a.go_on()
            after = await log.enqueue(task)
            assert await after.result(timeout=20) == "A"
        assert len((await run.record()).attempts) == 1


@pytest.mark.paced
async def test_while_it_makes_a_keyed_run_others_can_make_it(postgres_database: str) -> None:
    async with EffectLog(postgres_database) as log:
        async with stopping(postgres_database, "insert_run:before", lease=LEASE) as a:
            a.order("stop")
            a.order("enqueue")
            await a.told("stopping")
            began = time.monotonic()
            run = await log.enqueue(ends_at_once.with_options(idempotency_key="key"))
            assert time.monotonic() - began < 4.0
            assert run.created
            a.go_on()
            await a.told("enqueue done")
        assert [record.id for record in await log.list_runs()] == [run.id]


@pytest.mark.paced
async def test_what_is_silent_for_a_good_reason_is_left_alone(
    open_store: Callable[..., Awaitable[PostgresStore]], postgres_url: str, postgres_schema: str
) -> None:
    """An effect's own transaction, a person's, and the session that shows that a process is alive."""
    store, other = await open_store(), await open_store()
    (fence,) = await running(store)
    looked = asyncio.Event()

    async def stay_silent(connection: Connection) -> object:
        await connection.execute("BEGIN")
        await looked.wait()
        return await connection.fetchval("SELECT 1")

    session = store.liveness.session
    assert session is not None
    await session.wait_up(5.0)
    silent = asyncio.ensure_future(session.run(stay_silent, limit=10.0))
    async with psql(postgres_url) as somebody, store.transaction() as effect:
        await somebody.execute("BEGIN")
        await somebody.execute(f"SELECT 1 FROM {postgres_schema}.runs WHERE id = '{fence.run_id}' FOR UPDATE")
        await effect.connection.execute("SELECT 1")
        await asyncio.sleep(2 * KEEPS_A_RUN)
        with pytest.raises(StoreError, match="kept locked by somebody else"):
            await do(other, start(fence))
        assert await somebody.fetchval("SELECT 1") == 1
        await effect.commit()
    looked.set()
    assert await silent == 1
