"""A host whose clock is wrong must neither lengthen nor cut leases, nor make a request look older than it is."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from support.postgres_commands import claim, create, do, new_run, psql, running

from effectlog.model import AttemptOutcome, RunState
from effectlog.store import commands as c

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from effectlog.store.postgres.store import PostgresStore

    OpenStore = Callable[..., Awaitable[PostgresStore]]


async def test_the_wall_clock_is_the_servers(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() - 3600.0)
    store = await open_store()
    await do(store, create(new_run()))
    async with psql(postgres_url) as connection:
        now = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")
    assert abs(store.clock.wall() - now) < 2.0
    run = new_run(delay=0.3)
    await do(store, create(run))
    due = await store.due(["task"])
    assert due.next_in is None or due.next_in < 1.0
    stored = await store.get(run.id)
    assert stored is not None
    assert abs(stored.created_at - now) < 5.0


@pytest.mark.paced
async def test_a_lease_ends_by_the_servers_clock(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong, store = await open_store(), await open_store()
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + 3600.0)
    (fence,) = await running(wrong, lease=0.6)
    over = c.EndAttempt(fence, AttemptOutcome.EXPIRED, RunState.PENDING, guard=c.Guard.LAPSED)
    assert isinstance(await do(store, over), c.Refused)
    assert await store.lapsed(frozenset()) == []
    await asyncio.sleep(0.7)
    assert [row.id for row in await wrong.lapsed(frozenset())] == [fence.run_id]
    assert await do(wrong, c.Renew("a", 60.0, (fence,))) == c.Renewed(frozenset({fence.run_id}), frozenset())
    assert isinstance(await do(store, over), c.RunMoved)
    assert (await do(store, claim("b", run_id=fence.run_id))).runs[0].row.attempt == 2


async def test_what_was_left_behind_long_ago_is_removed_at_open(
    open_store: OpenStore, postgres_url: str
) -> None:
    store = await open_store()
    await store.liveness.hold("alive")
    await do(store, create(new_run()))
    async with psql(postgres_url) as connection:
        await connection.execute(
            f"INSERT INTO {store._schema}.owners SELECT 'gone', 42, host, pid, process_start, server_start, "
            f"0 FROM {store._schema}.owners"
        )
        await connection.execute(f"UPDATE {store._schema}.owners SET held_at = 0")
        await connection.execute(f"UPDATE {store._schema}.writers SET opened_at = 0")
        await open_store()
        assert await connection.fetchval(f"SELECT array_agg(owner) FROM {store._schema}.owners") == ["alive"]
        assert (
            await connection.fetchval(f"SELECT count(*) FROM {store._schema}.writers WHERE opened_at = 0")
            == 0
        )
    run = new_run()
    assert (await do(store, create(run))).created, "a writer whose row was removed begins a new one"
    assert await store.get(run.id) is not None
