"""A network that silently forgets idle connections must cost a moment, not a lease or a second request."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from helpers import do, finish, running, start
from proxy import Proxy

from effectlog import commands as c
from effectlog.store.postgres import PostgresStore

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
