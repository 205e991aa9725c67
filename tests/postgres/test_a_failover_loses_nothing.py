"""A primary killed under load, its synchronous standby promoted: nothing acknowledged may be lost or repeated."""

from __future__ import annotations

import asyncio
import signal
import time

import asyncpg
import pytest
from support.postgres_commands import create, do, finish, new_run, running, start
from support.postgres_server import Server

from effectlog.errors import StoreError
from effectlog.model import EffectState
from effectlog.store import commands as c
from effectlog.store.postgres.store import PostgresStore
from effectlog.store.protocol import RunFilter


async def _synchronous(primary: Server) -> None:
    """Make the primary wait for its standby, and wait until the standby is there to be waited for."""
    connection = await asyncpg.connect(primary.url)
    await connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
    await connection.execute("SELECT pg_reload_conf()")
    while (
        await connection.fetchval("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") != 1
    ):
        await asyncio.sleep(0.02)
    await connection.close()


async def _promote(standby: Server) -> None:
    connection = await asyncpg.connect(standby.url)
    await connection.execute("SELECT pg_promote()")
    await connection.close()


async def _round() -> None:
    primary = await asyncio.to_thread(Server().start)
    standby = await asyncio.to_thread(primary.standby)
    await asyncio.to_thread(standby.start)
    try:
        await _synchronous(primary)
        url = f"postgresql://postgres@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres"
        store = PostgresStore(url, patience=30.0, grace=0.5)
        await store.open()
        await _load_and_kill(store, primary, standby)
        await store.close()
    finally:
        standby.stop(how=signal.SIGQUIT)
        primary.stop(how=signal.SIGQUIT)


async def _load_and_kill(store: PostgresStore, primary: Server, standby: Server) -> None:
    await store.liveness.hold("owner")
    fences = await running(store, "owner", count=8)
    acknowledged: set[str] = set()
    completed: dict[c.Fence, int] = dict.fromkeys(fences, 0)
    over = asyncio.Event()
    dead: set[str] = set()

    async def enqueue() -> None:
        while not over.is_set():
            run = new_run("pushed")
            outcome = await do(store, create(run))
            assert outcome.created
            acknowledged.add(run.id)

    async def effects(fence: c.Fence) -> None:
        while not over.is_set():
            key = f"charge-{completed[fence]}"
            started = await do(store, start(fence, key))
            assert isinstance(started, c.EffectStored), f"a start was lost or repeated: {started}"
            assert started.effect.requests == 1
            finished = await do(store, finish(fence, key))
            assert finished.effect.result == b"1"
            completed[fence] += 1

    async def watch() -> None:
        while not over.is_set():
            try:
                dead.update(await store.liveness.dead(frozenset({"owner"})))
                await do(store, c.Renew("owner", 60.0, tuple(fences)))
            except StoreError:
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.02)

    loads = [asyncio.ensure_future(enqueue()) for _ in range(4)]
    loads += [asyncio.ensure_future(effects(fence)) for fence in fences]
    loads.append(asyncio.ensure_future(watch()))
    await asyncio.sleep(0.5)
    await asyncio.to_thread(primary.stop, how=signal.SIGKILL)
    before = len(acknowledged)
    await _promote(standby)
    killed = time.monotonic()
    while len(acknowledged) <= before + 8:
        assert time.monotonic() - killed < 15, "nobody came back after the failover"
        await asyncio.sleep(0.01)
    over.set()
    await asyncio.gather(*loads)
    assert dead == set()
    stored = {run.row.id for run in await store.find(RunFilter(task="pushed", limit=100_000))}
    assert stored == acknowledged
    for fence, count in completed.items():
        run = await store.get(fence.run_id)
        assert run is not None
        states = {effect.key: (effect.state, effect.requests) for effect in run.effects}
        assert states == {f"charge-{n}": (EffectState.COMPLETED, 1) for n in range(count)}


@pytest.mark.paced
async def test_one_failover() -> None:
    await _round()


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_twenty_failovers() -> None:
    for _ in range(20):
        await _round()
