"""A server restart ends every session at once; the whole fleet must keep its runs over it."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING

import pytest
from support.postgres_commands import create, do, finish, new_run, running, start
from support.postgres_server import Server

from effectlog.store import commands as c
from effectlog.store.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server().start()
    yield server
    server.stop(how=signal.SIGQUIT)


@pytest.mark.paced
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["shut down", "crashed"])
async def test_the_fleet_keeps_its_runs(how: signal.Signals, server: Server, postgres_schema: str) -> None:
    fleet = [PostgresStore(server.url, schema=postgres_schema, grace=0.3) for _ in range(3)]
    for store in fleet:
        await store.open()
    owners = [f"owner-{n}" for n in range(3)]
    fences = []
    for store, owner in zip(fleet, owners, strict=True):
        await store.liveness.hold(owner)
        fences += await running(store, owner)
    seen = set[str]()
    watching = asyncio.ensure_future(_watch(fleet, owners, seen))
    await asyncio.to_thread(server.stop, how=how)
    # Handed in while the server is away: it waits, and lands once.
    waiting = asyncio.ensure_future(do(fleet[0], start(fences[0])))
    await asyncio.sleep(0.3)
    await asyncio.to_thread(server.start)
    assert (await waiting).effect.requests == 1
    for store, owner, fence in zip(fleet, owners, fences, strict=True):
        assert await do(store, c.Renew(owner, 60.0, (fence,))) == c.Renewed(frozenset(), frozenset())
    assert (await do(fleet[0], finish(fences[0]))).effect.result == b"1"
    await asyncio.sleep(0.5)  # More than a grace with the server up: now everybody must have its lock again.
    watching.cancel()
    assert seen == set()
    for store in fleet:
        await store.close()


async def _watch(fleet: list[PostgresStore], owners: list[str], seen: set[str]) -> None:
    """What a takeover would act on, looked at all the time."""
    while True:
        for store in fleet:
            try:
                seen |= await store.liveness.dead(frozenset(owners))
            except Exception:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)


async def test_a_lock_that_this_server_never_saw_proves_nothing(server: Server, postgres_schema: str) -> None:
    owner = PostgresStore(server.url, schema=postgres_schema)
    await owner.open()
    await owner.liveness.hold("owner")
    assert owner._session is not None
    await owner._session.close()
    other = PostgresStore(server.url, schema=postgres_schema, grace=0.0)
    await other.open()
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.start)
    assert await other.liveness.dead(frozenset({"owner"})) == frozenset()
    await owner.close()
    await other.close()


@pytest.mark.paced
async def test_nobody_spins_while_the_server_is_down(server: Server, postgres_schema: str) -> None:
    store = PostgresStore(server.url, schema=postgres_schema, patience=3.0)
    await store.open()
    session = store._session
    assert session is not None
    assert await session.wait_up(5)
    await asyncio.to_thread(server.stop)
    before, cpu = session.attempts, time.process_time()
    await asyncio.sleep(2.0)
    assert 1 <= session.attempts - before <= 12
    assert time.process_time() - cpu < 0.5
    await asyncio.to_thread(server.start)
    assert await session.wait_up(3)
    assert (await do(store, create(new_run()))).created
    await store.close()
