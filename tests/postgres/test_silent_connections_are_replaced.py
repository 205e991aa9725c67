"""A network that silently forgets idle connections must cost a moment, not a lease or a second request."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import pytest
from support.postgres_commands import create, do, finish, new_run, running, start, until
from support.proxy import Proxy

from effectlog import EffectLog, durable_task
from effectlog.store import commands as c
from effectlog.store.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def forgetful(postgres_url: str, postgres_schema: str) -> AsyncIterator[tuple[Proxy, PostgresStore]]:
    proxy = Proxy(postgres_url)
    async with proxy.running() as url:
        store = PostgresStore(url, schema=postgres_schema, time_limit=0.5)
        await store.open()
        yield proxy, store
        await store.close()


@pytest.mark.paced
async def test_a_completion_crosses_to_a_fresh_connection(forgetful: tuple[Proxy, PostgresStore]) -> None:
    proxy, store = forgetful
    (fence,) = await running(store)
    await do(store, start(fence))
    proxy.forget()
    begun = time.monotonic()
    finished = await do(store, finish(fence))
    assert time.monotonic() - begun < 5.0
    assert (finished.effect.requests, finished.effect.result) == (1, b"1")


@pytest.mark.paced
async def test_a_heartbeat_crosses_before_the_lease_ends(forgetful: tuple[Proxy, PostgresStore]) -> None:
    proxy, store = forgetful
    (fence,) = await running(store, lease=5.0)
    await do(store, c.Renew("a", 5.0, (fence,)))
    proxy.forget()
    assert await do(store, c.Renew("a", 5.0, (fence,))) == c.Renewed(frozenset(), frozenset())


@pytest.mark.paced
async def test_the_session_notices_by_itself(forgetful: tuple[Proxy, PostgresStore]) -> None:
    proxy, store = forgetful
    await store.liveness.hold("owner")
    session = store._session
    assert session is not None
    opened = session.opened
    proxy.forget()
    deadline = time.monotonic() + 8
    while session.opened == opened or not session.up:
        await store.changed()
        assert time.monotonic() < deadline, "a session that answers nothing counts as alive"
    assert await store.liveness.dead(frozenset({"owner"})) == frozenset()
    (fence,) = await running(store, "owner")
    assert isinstance(await do(store, start(fence)), c.EffectStored)


async def _fill(store: PostgresStore, count: int) -> None:
    """Let so many connections of the pool be open and idle."""
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(count):
            await stack.enter_async_context(store._users.lend(limit=60.0))
    assert store._users.idle == count


@pytest.mark.paced
async def test_a_full_pool_costs_one_time_limit(postgres_url: str, postgres_schema: str) -> None:
    proxy = Proxy(postgres_url)
    async with proxy.running() as url:
        store = PostgresStore(url, schema=postgres_schema, pool_size=20, time_limit=0.5)
        await store.open()
        await _fill(store, 20)
        proxy.forget()
        begun = time.monotonic()
        await do(store, create(new_run("after")))
        await asyncio.gather(*(store.states(["after"]) for _ in range(20)))
        assert time.monotonic() - begun < 2.0, "each lost connection was waited for"
        await store.close()


started = asyncio.Event()


@durable_task(name="starts-after-silence")
async def starts() -> None:
    started.set()


@pytest.mark.paced
async def test_new_work_starts_after_one_time_limit(postgres_url: str, postgres_schema: str) -> None:
    """With the default of 8 s that is less than 12 s, whatever the pool."""
    started.clear()
    proxy = Proxy(postgres_url)
    async with (
        proxy.running() as url,
        EffectLog(PostgresStore(postgres_url, schema=postgres_schema)) as other,
    ):
        store = PostgresStore(url, schema=postgres_schema, pool_size=20, time_limit=2.0)
        async with EffectLog(store) as log, log.worker():
            await asyncio.wrap_future(log.administration.engine.call(_fill(store, 20)))
            proxy.forget()
            await other.enqueue(starts)
            assert await until(started.is_set, 6.0) < 6.0
