"""What is visible on the primary alone must not be told to anybody as stored: a fail-over takes it back.

The synchronous standby is away, a commit waits for it, and its session is ended: the server shows the
transaction to everybody then. Whoever is told of it must wait as a write of its own would.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from support.postgres_commands import claim, create, do, new_run, psql, start
from support.postgres_server import Server

from effectlog import EffectLog, durable_task
from effectlog.model import AttemptOutcome, RunState
from effectlog.store import commands as c
from effectlog.store.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator


class Pair:
    """A primary that waits for its standby."""

    def __init__(self) -> None:
        self.primary = Server().start()
        self.standby = self.primary.standby()

    async def begin(self) -> None:
        async with psql(self.primary.url) as connection:
            await connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            await connection.execute("SELECT pg_reload_conf()")
        await self.standby_back()

    async def standby_away(self) -> None:
        await asyncio.to_thread(self.standby.stop, how=signal.SIGQUIT)

    async def standby_back(self) -> None:
        await asyncio.to_thread(self.standby.start)
        async with psql(self.primary.url) as connection:
            following = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
            while await connection.fetchval(following) != 1:
                await asyncio.sleep(0.02)

    async def waits_for_standby(self, connection: asyncpg.Connection) -> list[int]:
        while True:
            rows = await connection.fetch("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
            if rows:
                return [row[0] for row in rows]
            await asyncio.sleep(0.01)

    async def show_early(self, write: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Let a write be visible though no standby has it: the session that waits for the standby is ended."""
        writing = asyncio.ensure_future(write)
        async with psql(self.primary.url) as connection:
            (pid,) = await self.waits_for_standby(connection)
            await connection.execute("SELECT pg_terminate_backend($1)", pid)
            # The writer finds out that it landed, and waits again.
            while await self.waits_for_standby(connection) == [pid]:
                await asyncio.sleep(0.01)
        return writing

    def stop(self) -> None:
        self.standby.stop(how=signal.SIGQUIT)
        self.primary.stop(how=signal.SIGQUIT)


@pytest.fixture(scope="module")
def servers() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.stop()


@pytest.fixture
async def pair(servers: Pair) -> Pair:
    if servers.standby._process is None:
        await servers.begin()
    return servers


@pytest.fixture
async def opened(pair: Pair, postgres_schema: str) -> AsyncIterator[Callable[[], Awaitable[PostgresStore]]]:
    async with contextlib.AsyncExitStack() as stack:

        async def open_one() -> PostgresStore:
            store = PostgresStore(pair.primary.url, schema=postgres_schema)
            await store.open()
            stack.push_async_callback(store.close)
            await store.apply([create(new_run("warm"))])
            return store

        yield open_one
        if pair.standby._process is None:  # The test failed, and nothing below should have to wait as well.
            await pair.standby_back()


async def _told_only_with_the_standby(pair: Pair, asking: Awaitable[Any]) -> Any:
    asked = asyncio.ensure_future(asking)
    done, _ = await asyncio.wait({asked}, timeout=0.5)
    assert not done, f"told what the standby does not have: {asked.result()}"
    await pair.standby_back()
    return await asyncio.wait_for(asked, 10)


async def _claimed(store: PostgresStore) -> c.Fence:
    run = new_run("told")
    await do(store, create(run))
    (stored,) = (await do(store, claim(task="told"))).runs
    return c.Fence(stored.row.id, stored.row.attempt)


def _end(fence: c.Fence) -> c.EndAttempt:
    return c.EndAttempt(fence, AttemptOutcome.SUCCEEDED, RunState.SUCCEEDED, result=b"7")


async def _key(store: PostgresStore) -> tuple[c.Command, c.Command]:
    return create(new_run("told"), key="k"), create(new_run("told"), key="k")


async def _cancel(store: PostgresStore) -> tuple[c.Command, c.Command]:
    run = new_run("told")
    await do(store, create(run))
    return c.CancelRun(run.id), c.CancelRun(run.id)


async def _resolve(store: PostgresStore) -> tuple[c.Command, c.Command]:
    fence = await _claimed(store)
    await do(store, start(fence))
    await do(store, c.EndAttempt(fence, AttemptOutcome.RELEASED, RunState.PENDING))
    settle = c.SettleEffect(fence.run_id, "charge", applied=True, by="eve", result=b"1")
    return settle, settle


async def _retry(store: PostgresStore) -> tuple[c.Command, c.Command]:
    fence = await _claimed(store)
    return _end(fence), c.RetryRun(fence.run_id)


@pytest.mark.paced
@pytest.mark.parametrize("prepare", [_key, _cancel, _resolve, _retry])
async def test_an_answer_that_wrote_nothing_waits_for_the_standby(
    pair: Pair,
    opened: Callable[[], Awaitable[PostgresStore]],
    prepare: Callable[[PostgresStore], Awaitable[tuple[c.Command, c.Command]]],
) -> None:
    one, other = await opened(), await opened()
    first, second = await prepare(one)
    await pair.standby_away()
    writing = await pair.show_early(do(one, first))
    told = await _told_only_with_the_standby(pair, do(other, second))
    assert isinstance(told, c.Refused) or not getattr(told, "created", getattr(told, "changed", False))
    await writing


@pytest.mark.paced
async def test_a_writer_whose_session_was_ended_waits_for_the_standby(
    pair: Pair, opened: Callable[[], Awaitable[PostgresStore]]
) -> None:
    one = await opened()
    await pair.standby_away()
    writing = await pair.show_early(do(one, create(new_run("told"), key="k")))
    assert (await _told_only_with_the_standby(pair, writing)).created


@pytest.mark.paced
async def test_a_key_asked_for_in_the_callers_transaction_makes_its_commit_wait(
    pair: Pair, opened: Callable[[], Awaitable[PostgresStore]]
) -> None:
    one, other = await opened(), await opened()
    await pair.standby_away()
    writing = await pair.show_early(do(one, create(new_run("told"), key="k")))
    connection = await asyncpg.connect(pair.primary.url)
    transaction = connection.transaction()
    await transaction.start()
    (told,) = await other.apply_within(connection, [create(new_run("told"), key="k")])
    assert not told.created
    await _told_only_with_the_standby(pair, transaction.commit())
    await connection.close()
    await writing


@durable_task(name="told")
def told() -> int:
    return 7


@pytest.mark.paced
async def test_a_result_waits_for_the_standby(
    pair: Pair, opened: Callable[[], Awaitable[PostgresStore]], postgres_schema: str
) -> None:
    one = await opened()
    fence = await _claimed(one)
    async with EffectLog(PostgresStore(pair.primary.url, schema=postgres_schema)) as log:
        run = await log.get_run(fence.run_id)
        await pair.standby_away()
        writing = await pair.show_early(do(one, _end(fence)))
        assert (
            await run.record()
        ).state is RunState.SUCCEEDED  # A plain read promises no more than it shows.
        assert await _told_only_with_the_standby(pair, run.result()) == 7
        await writing


@pytest.mark.paced
async def test_a_key_told_over_a_failover_is_there_afterwards(postgres_schema: str) -> None:
    pair = await asyncio.to_thread(Pair)
    try:
        await pair.begin()
        url = f"postgresql://postgres@127.0.0.1:{pair.primary.port},127.0.0.1:{pair.standby.port}/postgres"
        one, other = (PostgresStore(url, schema=postgres_schema, patience=30.0) for _ in range(2))
        await one.open()
        await other.open()
        await pair.standby_away()
        writing = await pair.show_early(do(one, create(new_run("told"), key="k")))
        asking = asyncio.ensure_future(do(other, create(new_run("told"), key="k")))
        await asyncio.wait({asking}, timeout=0.3)
        await asyncio.to_thread(pair.primary.stop, how=signal.SIGKILL)
        await asyncio.to_thread(pair.standby.start)
        async with psql(pair.standby.url) as connection:
            await connection.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
            await connection.execute("SELECT pg_promote()")
        for answer in await asyncio.gather(writing, asking):
            assert await other.get(answer.run_ids[0]) is not None, "a run that was told of is gone"
        await one.close()
        await other.close()
    finally:
        pair.stop()
