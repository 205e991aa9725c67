"""Calls cancelled at random moments must neither leak a connection nor leave one unusable."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest
from support.postgres_commands import create, do, new_run, psql, running, start

from effectlog.errors import StoreClosed, StoreError, StoreTrouble
from effectlog.model import RunState
from effectlog.store import commands as c
from effectlog.store.protocol import RunFilter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from effectlog.store.postgres.store import PostgresStore

    OpenStore = Callable[..., Awaitable[PostgresStore]]


async def test_a_storm_of_cancellations(open_store: OpenStore, postgres_url: str) -> None:
    store = await open_store(pool_size=3)
    asked = []

    async def one(number: int) -> None:
        run = new_run("storm")
        asked.append(run.id)
        call = store.apply([create(run)]) if number % 2 else store.find(RunFilter(limit=3))
        task = asyncio.ensure_future(call)
        await asyncio.sleep(random.random() * 0.01)
        task.cancel()
        await asyncio.wait({task})

    for _ in range(20):
        await asyncio.gather(*(one(number) for number in range(20)))
    await store._shield.settle(40)
    assert store._users.lent == 0
    assert 1 <= store._users.idle <= 3
    together = await asyncio.gather(*(do(store, create(new_run("after"))) for _ in range(30)))
    assert all(outcome.created for outcome in together)
    stored = await store.find(RunFilter(task="storm", limit=1000))
    assert {run.row.id for run in stored} <= set(asked)
    async with psql(postgres_url) as connection:
        assert not await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' "
            "AND datname = current_database()"
        )


async def test_a_cancelled_caller_does_not_cancel_the_commit(store: PostgresStore) -> None:
    run = new_run()
    task = asyncio.ensure_future(store.apply([create(run)]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store._shield.settle(10)
    assert await store.get(run.id) is not None


@pytest.mark.paced
async def test_an_exhausted_pool_says_so_and_leaves_heartbeats_alone(open_store: OpenStore) -> None:
    store = await open_store(pool_size=1, patience=0.3)
    (fence,) = await running(store)
    async with store._users.lend():
        with pytest.raises(StoreError, match="all 1 connections of this process are in use") as caught:
            await store.get(fence.run_id)
        assert (caught.value.transient, caught.value.reason) == (True, StoreTrouble.POOL_EXHAUSTED)
        renewed = await asyncio.wait_for(do(store, c.Renew("a", 60.0, (fence,))), 20)
        assert renewed.lost == frozenset()
    assert await store.get(fence.run_id) is not None


async def test_a_closed_store_answers_at_once(store: PostgresStore) -> None:
    await store.close()
    for call in (store.apply([c.RemoveWorker("a")]), store.get("a"), store.due(["a"])):
        with pytest.raises(StoreClosed):
            await asyncio.wait_for(call, 10)
    await store.close()
    await store.open()
    assert await store.get("a") is None


async def test_who_was_alive_in_a_closed_store_is_not_alive_in_it_again(open_store: OpenStore) -> None:
    store, other = await open_store(), await open_store()
    await store.liveness.hold("owner")
    (fence,) = await running(store, "owner")
    await store.close()
    await store.open()
    assert store._session is not None
    assert await store._session.wait_up(5)
    assert isinstance(await do(other, c.CancelRun(fence.run_id)), c.RunMoved)
    assert isinstance(
        await do(other, c.CancelRun(fence.run_id, dead_owners=frozenset({"owner"}))), c.RunMoved
    )
    stored = await other.get(fence.run_id)
    assert stored is not None
    assert stored.row.state is RunState.CANCELLED


async def test_closing_beside_calls_ends_them(open_store: OpenStore) -> None:
    store = await open_store()
    calls = [asyncio.ensure_future(store.apply([create(new_run())])) for _ in range(20)]
    await asyncio.sleep(0)
    await asyncio.wait_for(store.close(), 10)
    done, pending = await asyncio.wait(calls, timeout=20)
    assert not pending
    assert all(isinstance(call.result()[0], c.Created) for call in done)


async def test_a_statement_that_the_server_cancels_is_tried_again(
    store: PostgresStore, postgres_url: str, postgres_schema: str
) -> None:
    """By ``pg_cancel_backend``, or by a ``statement_timeout`` that somebody has set on the role."""
    (fence,) = await running(store)
    async with psql(postgres_url) as somebody, psql(postgres_url) as operator:
        await somebody.execute(f"BEGIN; LOCK TABLE {postgres_schema}.runs")
        starting = asyncio.ensure_future(do(store, start(fence)))
        waiting = (
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname "
            "= current_database() AND application_name LIKE 'effectlog%'"
        )
        while not await operator.fetch(waiting):
            await asyncio.sleep(0.01)
        await somebody.execute("ROLLBACK")
    assert isinstance(await starting, c.EffectStored)
