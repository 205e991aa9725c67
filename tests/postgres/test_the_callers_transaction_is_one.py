"""Runs and effect records written in the caller's transaction must live and die with it, on every driver."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool
from support.postgres_commands import create, do, new_run, psql, running, start

from effectlog.errors import ConfigurationError
from effectlog.model import EffectState
from effectlog.store import commands as c
from effectlog.store.protocol import RunFilter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from effectlog.store.postgres.store import PostgresStore


class RolledBackError(Exception):
    """What a caller raises to leave its transaction."""


def _sqlalchemy_url(url: str, driver: str) -> str:
    return urlunsplit(urlsplit(url)._replace(scheme=f"postgresql+{driver}"))


@contextlib.asynccontextmanager
async def _asyncpg(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def _psycopg(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection


@contextlib.asynccontextmanager
async def _sqlalchemy_connection(url: str) -> AsyncIterator[Any]:
    engine = create_async_engine(_sqlalchemy_url(url, "asyncpg"), poolclass=NullPool)
    async with engine.begin() as connection:
        yield connection


@contextlib.asynccontextmanager
async def _sqlalchemy_session(url: str) -> AsyncIterator[Any]:
    engine = create_async_engine(_sqlalchemy_url(url, "psycopg"), poolclass=NullPool)
    async with AsyncSession(engine) as session, session.begin():
        yield session


ASYNC = {
    "asyncpg": _asyncpg,
    "psycopg": _psycopg,
    "sqlalchemy connection": _sqlalchemy_connection,
    "sqlalchemy session": _sqlalchemy_session,
}


@pytest.mark.parametrize("driver", ASYNC)
async def test_a_run_is_seen_when_its_creator_commits(
    driver: str, store: PostgresStore, postgres_url: str
) -> None:
    kept, dropped = new_run(), new_run()
    async with ASYNC[driver](postgres_url) as transaction:
        (created,) = await store.apply_within(transaction, [create(kept, key="kept")])
        assert created == c.Created((kept.id,), created=True, fingerprints="{}")
        assert await store.get(kept.id) is None, "it was seen before its creator had committed"
    assert await store.get(kept.id) is not None
    with contextlib.suppress(RolledBackError):
        async with ASYNC[driver](postgres_url) as transaction:
            await store.apply_within(transaction, [create(dropped, key="dropped")])
            raise RolledBackError
    assert await store.get(dropped.id) is None
    again = await do(store, create(new_run(), key="dropped"))
    assert again.created, "the key of a run that was rolled back is free"


def _blocking_psycopg(url: str, use: Callable[[Any], None]) -> None:
    with psycopg.connect(url) as connection:
        use(connection)


def _blocking_sqlalchemy(url: str, use: Callable[[Any], None]) -> None:
    engine = sqlalchemy.create_engine(_sqlalchemy_url(url, "psycopg"), poolclass=NullPool)
    with engine.begin() as connection:
        use(connection)


def _blocking_session(url: str, use: Callable[[Any], None]) -> None:
    engine = sqlalchemy.create_engine(_sqlalchemy_url(url, "psycopg"), poolclass=NullPool)
    with Session(engine) as session, session.begin():
        use(session)


@pytest.mark.parametrize("driver", [_blocking_psycopg, _blocking_sqlalchemy, _blocking_session])
async def test_a_blocking_driver_does_as_well(
    driver: Callable[[str, Callable[[Any], None]], None], store: PostgresStore, postgres_url: str
) -> None:
    kept, dropped = new_run(), new_run()

    def fail(transaction: Any) -> None:
        store.apply_within_sync(transaction, [create(dropped)])
        raise RolledBackError

    with pytest.raises(RolledBackError):
        await asyncio.to_thread(driver, postgres_url, fail)
    await asyncio.to_thread(
        driver, postgres_url, lambda transaction: store.apply_within_sync(transaction, [create(kept)])
    )
    assert [stored.row.id for stored in await store.find(RunFilter())] == [kept.id]


async def test_a_key_that_somebody_else_took_gives_their_run(store: PostgresStore, postgres_url: str) -> None:
    theirs = new_run()
    async with psql(postgres_url) as first, psql(postgres_url) as second:
        await first.execute("BEGIN")
        await store.apply_within(first, [create(theirs, key="k")])
        await second.execute("BEGIN")
        waiting = asyncio.ensure_future(store.apply_within(second, [create(new_run(), key="k")]))
        await asyncio.sleep(0.05)
        assert not waiting.done(), "whether the key is taken is not known before the other one commits"
        await first.execute("COMMIT")
        ((outcome),) = await waiting
        assert (outcome.run_ids, outcome.created) == ((theirs.id,), False)  # type: ignore[union-attr]
        await second.execute("COMMIT")


async def _write_with_effect(
    store: PostgresStore, url: str, fence: c.Fence, *, before_commit: Callable[[Any], Awaitable[None]]
) -> list[c.Outcome]:
    """An effect that writes to the same database: its record and its writes commit together."""
    async with psql(url) as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(f"INSERT INTO {store._schema}.accounts VALUES ('A-42', 1999)")
        finish = c.FinishEffect(fence, "charge", c.RequestOutcome.COMPLETED, result=b"1")
        outcomes = await store.apply_within(connection, [finish])
        await before_commit(connection)
        if any(isinstance(outcome, c.Refused) for outcome in outcomes):
            await transaction.rollback()
        else:
            await transaction.commit()
        return outcomes


async def _accounts(store: PostgresStore, url: str) -> int:
    async with psql(url) as connection:
        return int(await connection.fetchval(f"SELECT count(*) FROM {store._schema}.accounts"))


async def _effect_state(store: PostgresStore, fence: c.Fence) -> EffectState:
    stored = await store.get(fence.run_id)
    assert stored is not None
    return stored.effects[0].state


@pytest.fixture
async def started(store: PostgresStore, postgres_url: str) -> c.Fence:
    async with psql(postgres_url) as connection:
        await connection.execute(f"CREATE TABLE {store._schema}.accounts (id TEXT, cents BIGINT)")
    (fence,) = await running(store)
    await do(store, start(fence))
    return fence


async def test_an_effect_in_the_same_database_has_no_doubt(
    store: PostgresStore, postgres_url: str, started: c.Fence
) -> None:
    async def killed(connection: asyncpg.Connection) -> None:
        async with psql(postgres_url) as other:
            await other.execute("SELECT pg_terminate_backend($1, 2000)", connection.get_server_pid())

    async def nothing(_: asyncpg.Connection) -> None:
        return None

    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await _write_with_effect(store, postgres_url, started, before_commit=killed)
    assert (await _accounts(store, postgres_url), await _effect_state(store, started)) == (
        0,
        EffectState.STARTED,
    )
    await _write_with_effect(store, postgres_url, started, before_commit=nothing)
    assert (await _accounts(store, postgres_url), await _effect_state(store, started)) == (
        1,
        EffectState.COMPLETED,
    )


async def test_a_fenced_out_attempt_writes_nothing(
    store: PostgresStore, postgres_url: str, started: c.Fence
) -> None:
    await do(store, c.CancelRun(started.run_id, force=True))
    stale = c.FinishEffect(c.Fence(started.run_id, 9), "charge", c.RequestOutcome.NOT_APPLIED)
    child = c.CreateRuns((new_run(),), "task", "child", fence=started)
    async with psql(postgres_url) as connection:
        await connection.execute("BEGIN")
        assert isinstance((await store.apply_within(connection, [child]))[0], c.Refused)
        await connection.execute("COMMIT")
        before = await store.get(started.run_id)
        await connection.execute("BEGIN")
        await store.apply_within(connection, [stale])
        await connection.execute("COMMIT")
    assert await store.get(started.run_id) == before
    assert len(await store.find(RunFilter())) == 1


async def test_a_long_transaction_of_a_parent_stops_none_of_its_heartbeats(
    store: PostgresStore, postgres_url: str
) -> None:
    (fence,) = await running(store)
    child = c.CreateRuns((new_run(),), "task", "child", fence=fence)
    async with psql(postgres_url) as connection:
        await connection.execute("BEGIN")
        await store.apply_within(connection, [child])
        assert await do(store, c.Renew("a", 60.0, (fence,))) == c.Renewed(frozenset(), frozenset())
        assert isinstance(await do(store, start(fence)), c.EffectStored)
        await connection.execute("COMMIT")


async def test_what_is_no_transaction_is_refused(store: PostgresStore, postgres_url: str) -> None:
    async with psql(postgres_url) as connection:
        with pytest.raises(ConfigurationError, match="in no transaction"):
            await store.apply_within(connection, [create(new_run())])
    with pytest.raises(ConfigurationError, match="a str is no connection"):
        await store.apply_within("postgresql://…", [create(new_run())])
    async with _asyncpg(postgres_url) as transaction:
        with pytest.raises(ConfigurationError, match="RemoveWorker can't be part"):
            await store.apply_within(transaction, [c.RemoveWorker("a")])
        with pytest.raises(ConfigurationError, match="has to be awaited"):
            store.apply_within_sync(transaction, [create(new_run())])
