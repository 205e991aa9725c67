"""One session that sits idle in a transaction must not stop the runs whose rows it doesn't hold."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from support.postgres_commands import claim, create, do, finish, new_run, psql, running, start

from effectlog.errors import StoreError
from effectlog.model import RunState
from effectlog.store import commands as c

if TYPE_CHECKING:
    import asyncpg

    from effectlog.store.postgres.store import PostgresStore


async def _keep_locked(connection: asyncpg.Connection, schema: str, run_id: str) -> None:
    await connection.execute("BEGIN")
    await connection.execute(f"SELECT 1 FROM {schema}.runs WHERE id = '{run_id}' FOR UPDATE")


@pytest.mark.paced
async def test_the_rest_of_a_batch_goes_on(
    store: PostgresStore, postgres_url: str, postgres_schema: str
) -> None:
    held, free = await running(store, count=2)
    async with psql(postgres_url) as somebody:
        await _keep_locked(somebody, postgres_schema, held.run_id)
        began = time.monotonic()
        outcomes = await store.apply([start(held), start(free), finish(free)])
        assert time.monotonic() - began < 1.0
        assert outcomes[0] == c.Refused(c.Refusal.BUSY)
        assert isinstance(outcomes[2], c.EffectStored)
        assert outcomes[2].effect.result == b"1"
    started = await do(store, start(held))
    assert started.effect.requests == 1, "what came back busy had left something behind"


@pytest.mark.paced
async def test_a_command_alone_waits_a_little_and_then_names_its_run(
    store: PostgresStore, postgres_url: str, postgres_schema: str
) -> None:
    (held,) = await running(store)
    async with psql(postgres_url) as somebody:
        await _keep_locked(somebody, postgres_schema, held.run_id)
        with pytest.raises(StoreError, match=f"{held.run_id} is kept locked by somebody else") as caught:
            await do(store, start(held))
        assert caught.value.transient
        waiting = asyncio.ensure_future(do(store, start(held)))
        await asyncio.sleep(0.05)
        await somebody.execute("ROLLBACK")
        assert isinstance(await waiting, c.EffectStored)


async def test_claims_pass_over_it(store: PostgresStore, postgres_url: str, postgres_schema: str) -> None:
    runs = [new_run() for _ in range(3)]
    await store.apply([create(run) for run in runs])
    async with psql(postgres_url) as somebody:
        await _keep_locked(somebody, postgres_schema, runs[0].id)
        claimed = await do(store, claim())
        assert {stored.row.id for stored in claimed.runs} == {runs[1].id, runs[2].id}
        one = await do(store, claim(run_id=runs[0].id))
        assert one.runs == ()
    claimed = await do(store, claim())
    assert [stored.row.id for stored in claimed.runs] == [runs[0].id]


async def test_heartbeats_renew_the_others_and_say_which_not(
    store: PostgresStore, postgres_url: str, postgres_schema: str
) -> None:
    held, free = await running(store, count=2, lease=5.0)
    before = (await store.get(free.run_id)).row.lease_expires  # type: ignore[union-attr]
    async with psql(postgres_url) as somebody:
        await _keep_locked(somebody, postgres_schema, held.run_id)
        renewed = await do(store, c.Renew("a", 60.0, (held, free)))
        assert (renewed.lost, renewed.blocked) == (frozenset(), frozenset({held.run_id}))
    after = await store.get(free.run_id)
    assert after is not None
    assert after.row.lease_expires > before + 30
    assert (await do(store, c.Renew("a", 60.0, (held, free)))).blocked == frozenset()


async def test_a_purge_passes_over_it(store: PostgresStore, postgres_url: str, postgres_schema: str) -> None:
    runs = [new_run() for _ in range(2)]
    await store.apply([create(run) for run in runs])
    await store.apply([c.CancelRun(run.id) for run in runs])
    purge = c.Purge(0.0, (RunState.CANCELLED,), 10)
    async with psql(postgres_url) as somebody:
        await _keep_locked(somebody, postgres_schema, runs[0].id)
        assert await do(store, purge) == c.Purged(1)
    assert await do(store, purge) == c.Purged(1)
