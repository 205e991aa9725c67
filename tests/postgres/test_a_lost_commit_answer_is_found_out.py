"""A commit whose answer is lost must be neither repeated nor reported as lost when it landed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg
import pytest
from support.postgres_commands import create, do, finish, new_run, psql, running, start, until
from support.proxy import Proxy

from effectlog.store import commands as c
from effectlog.store.postgres.store import PostgresStore
from effectlog.store.protocol import RunFilter

if TYPE_CHECKING:
    from effectlog.store.rows import NewRun


async def _warm(store: PostgresStore) -> None:
    """The first transaction of a connection does more than those after it."""
    await store.apply([create(new_run("warm"))])


@pytest.mark.parametrize("lose", ["answer", "message"])
async def test_a_claim_counts_once_whether_or_not_the_commit_landed(
    lose: str, postgres_url: str, postgres_schema: str
) -> None:
    proxy = Proxy(postgres_url)
    async with proxy.running() as url:
        store = PostgresStore(url, schema=postgres_schema)
        await store.open()
        await _warm(store)
        (fence,) = await running(store)
        proxy.lose = lose
        started = await do(store, start(fence))
        assert proxy.lost == 1
        assert isinstance(started, c.EffectStored), "a request that is recorded was reported as refused"
        assert started.effect.requests == 1
        finished = await do(store, finish(fence))
        assert (finished.effect.requests, finished.effect.result) == (1, b"1")
        await store.close()


@pytest.mark.parametrize("lose", ["answer", "message"])
async def test_a_run_without_a_key_is_created_once(
    lose: str, postgres_url: str, postgres_schema: str
) -> None:
    proxy = Proxy(postgres_url)
    async with proxy.running() as url:
        store = PostgresStore(url, schema=postgres_schema)
        await store.open()
        await _warm(store)
        proxy.lose = lose
        run = new_run("once")
        created = await do(store, create(run))
        assert (proxy.lost, created.created, created.run_ids) == (1, True, (run.id,))
        assert len(await store.find(RunFilter(task="once"))) == 1
        await store.close()


async def test_a_commit_that_arrives_late_finds_itself_given_up(
    postgres_url: str, postgres_schema: str
) -> None:
    proxy = Proxy(postgres_url)
    async with proxy.running() as url:
        store = PostgresStore(url, schema=postgres_schema)
        await store.open()
        await _warm(store)
        beat = c.ReportWorker("owner", "late", "host", 1, 1, claimed_at=1.0)
        proxy.lose = "late"
        await store.apply([create(new_run("late")), beat])
        assert proxy.lost == 1
        await proxy.deliver()
        await _no_open_transaction(postgres_url)
        assert len(await store.find(RunFilter(task="late"))) == 1
        await store.close()


async def _no_open_transaction(url: str) -> None:
    """Wait until the server has dealt with what was sent."""
    async with psql(url) as connection:
        for _ in range(500):
            if not await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'effectlog' "
                "AND state <> 'idle' AND datname = current_database()"
            ):
                return
            await asyncio.sleep(0.01)
    async with psql(url) as connection:
        raise AssertionError(
            await connection.fetch(
                "SELECT pid, state, query, application_name FROM pg_stat_activity WHERE datname = "
                "current_database()"
            )
        )


async def test_the_number_of_a_writer_refuses_a_commit_that_was_given_up(
    store: PostgresStore, postgres_url: str, postgres_schema: str
) -> None:
    """The guard itself: the same COMMIT text after its number has moved on fails, and commits nothing."""
    await _warm(store)
    sql = store._sql
    async with psql(postgres_url) as connection:
        (writer, batch) = await connection.fetchrow(f"SELECT id, batch FROM {postgres_schema}.writers")
        await connection.execute("BEGIN")
        await connection.execute(f"DELETE FROM {postgres_schema}.runs")
        assert await _given_up(postgres_url, sql["give_up_batch"], writer, batch + 1)
        with pytest.raises(asyncpg.DivisionByZeroError):
            await connection.execute(sql["commit"].format(writer=writer, batch=batch + 1))
    assert len(await store.find(RunFilter())) == 1, "a commit that was given up took effect"


async def _given_up(url: str, statement: str, writer: int, batch: int) -> bool:
    async with psql(url) as connection:
        return await connection.fetchval(statement, writer, batch) is not None


async def test_killed_backends_lose_and_double_nothing(
    store: PostgresStore, postgres_url: str, postgres_schema: str
) -> None:
    """Server processes are killed at random while batches commit: each run is there exactly once."""
    runs = [new_run("storm") for _ in range(300)]
    created = 0

    async def one(run: NewRun) -> c.Created:
        nonlocal created
        outcome = await do(store, create(run))
        created += 1
        assert isinstance(outcome, c.Created)
        return outcome

    async def kill() -> None:
        async with psql(postgres_url) as connection:
            for at in range(0, len(runs), 10):
                await until(lambda at=at: created >= at, 30)  # type: ignore[misc]  # bound for each round
                await connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = "
                    "'effectlog' AND datname = current_database() AND state <> 'idle' ORDER BY random() "
                    "LIMIT 1"
                )

    killing = asyncio.ensure_future(kill())
    outcomes = await asyncio.gather(*map(one, runs))
    await killing
    assert [outcome.run_ids for outcome in outcomes] == [(run.id,) for run in runs]
    assert {stored.row.id for stored in await store.find(RunFilter(task="storm", limit=1000))} == {
        run.id for run in runs
    }
    async with psql(postgres_url) as connection:
        assert await connection.fetchval(f"SELECT max(batch) FROM {postgres_schema}.writers") > 1
