"""What the store's own trouble is told as: a person who acts by a wrong message makes it worse."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import pytest
from support.postgres_commands import create, do, new_run, psql
from support.postgres_server import Server

from effectlog.errors import StoreError
from effectlog.store import commands as c
from effectlog.store.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server().start()
    yield server
    server.stop(how=signal.SIGQUIT)


async def _standby_names(server: Server, names: str) -> None:
    async with psql(server.url) as connection:
        await connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        await connection.execute("SELECT pg_reload_conf()")


@pytest.mark.paced
async def test_a_commit_that_waits_for_its_standby_is_not_called_idle(server: Server) -> None:
    one, other = PostgresStore(server.url), PostgresStore(server.url)
    await one.open()
    await other.open()
    run = new_run()
    await do(one, create(run))
    await _standby_names(server, "nobody")
    waiting = asyncio.ensure_future(do(one, c.CancelRun(run.id)))
    async with psql(server.url) as connection:
        while not await connection.fetchval("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"):
            await asyncio.sleep(0.01)
    with pytest.raises(StoreError, match=r"waits for a synchronous standby.*Don't end that session") as told:
        await do(other, c.CancelRun(run.id))
    assert told.value.transient
    await _standby_names(server, "")
    await waiting
    await one.close()
    await other.close()


async def test_a_full_disk_of_the_server_clears_by_itself(
    store: PostgresStore, postgres_url: str, postgres_schema: str
) -> None:
    async with psql(postgres_url) as connection:
        await connection.execute(
            f"CREATE FUNCTION {postgres_schema}.full() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$"
        )
        await connection.execute(
            f"CREATE TRIGGER full_disk BEFORE INSERT ON {postgres_schema}.runs "
            f"EXECUTE FUNCTION {postgres_schema}.full()"
        )
    with pytest.raises(StoreError, match="disk is full") as told:
        await do(store, create(new_run()))
    assert told.value.transient
