"""A killed worker's runs are taken over at once, and no living worker ever looks dead."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

import pytest
from support import APPS
from support.postgres_commands import claim, do, psql, running, start, until

from effectlog.errors import StoreError
from effectlog.model import AttemptOutcome, RunState
from effectlog.store import commands as c

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from effectlog.store.postgres.store import PostgresStore

    OpenStore = Callable[..., Awaitable[PostgresStore]]

PROGRAM = APPS / "owner_process.py"
OWNER = frozenset({"owner"})


@contextlib.asynccontextmanager
async def _owner_process(
    url: str, schema: str, *options: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, list[int]]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), url, schema, "owner", *options, stdout=asyncio.subprocess.PIPE
    )
    children = []
    assert process.stdout is not None
    try:
        while (line := (await process.stdout.readline()).decode().split()) != ["held"]:
            assert line, "the owner's process ended early"
            children.append(int(line[1]))
        yield process, children
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        # Its children held the pipe as well: to its end, so that nothing of it outlives the loop.
        async with asyncio.timeout(10):
            await process.stdout.read()
        process._transport.close()  # type: ignore[attr-defined]  # asyncio has no public way


async def _found_dead(store: PostgresStore, seconds: float = 10.0) -> float:
    begun = time.monotonic()
    while await store.liveness.dead(OWNER) != OWNER:
        assert time.monotonic() - begun < seconds, "the owner's death was not noticed"
        await asyncio.sleep(0.01)
    return time.monotonic() - begun


@pytest.mark.timed
@pytest.mark.parametrize("options", [(), ("fork",)], ids=["alone", "with a forked child"])
async def test_a_killed_process_is_dead_in_half_a_second(
    options: tuple[str, ...], store: PostgresStore, postgres_url: str, postgres_schema: str
) -> None:
    async with _owner_process(postgres_url, postgres_schema, *options) as (process, _):
        assert await store.liveness.dead(OWNER) == frozenset()
        process.kill()
        assert await _found_dead(store) < 0.5


async def test_a_paused_process_is_alive(
    store: PostgresStore, postgres_url: str, postgres_schema: str
) -> None:
    async with _owner_process(postgres_url, postgres_schema) as (process, _):
        process.send_signal(signal.SIGSTOP)
        for _ in range(10):
            assert await store.liveness.dead(OWNER) == frozenset()
            await asyncio.sleep(0.05)


async def test_a_process_that_lost_its_session_is_alive_while_the_system_sees_it(
    open_store: OpenStore, postgres_url: str, postgres_schema: str
) -> None:
    """The process is stopped, so that it can't take its lock again: only the lease may end it."""
    store = await open_store(grace=0.1)
    async with _owner_process(postgres_url, postgres_schema) as (process, _):
        process.send_signal(signal.SIGSTOP)
        await _end_owner_sessions(postgres_url, store, "owner")
        for _ in range(10):
            assert await store.liveness.dead(OWNER) == frozenset()
            await asyncio.sleep(0.05)


async def _end_owner_sessions(url: str, store: PostgresStore, owner: str) -> None:
    """End the server process that holds the owner's lock, as a network that forgot the connection would."""
    from effectlog.store.postgres.schema import owner_key

    key = owner_key(store._schema, owner)
    async with psql(url) as connection:
        ended = await connection.fetch(
            "SELECT pg_terminate_backend(pid, 1000) FROM pg_locks WHERE locktype = 'advisory' AND granted "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND classid::bigint = $1 AND objid::bigint = $2",
            (key >> 32) & 0xFFFFFFFF,
            key & 0xFFFFFFFF,
        )
        assert len(ended) == 1


async def _move_to_another_host(url: str, schema: str) -> None:
    async with psql(url) as connection:
        await connection.execute(f"UPDATE {schema}.owners SET host = 'elsewhere' WHERE owner = 'owner'")


@pytest.mark.paced
async def test_on_another_host_a_free_lock_means_death_after_the_grace(
    open_store: OpenStore, postgres_url: str, postgres_schema: str
) -> None:
    store = await open_store(grace=0.6)
    async with _owner_process(postgres_url, postgres_schema) as (process, _):
        await _move_to_another_host(postgres_url, postgres_schema)
        process.send_signal(signal.SIGSTOP)
        await _end_owner_sessions(postgres_url, store, "owner")
        assert 0.5 < await _found_dead(store) < 2.0


@pytest.mark.paced
async def test_a_lock_that_was_taken_again_begins_a_new_grace(
    open_store: OpenStore, postgres_url: str, postgres_schema: str
) -> None:
    """Seen free at two moments with a life in between is not free all the time."""
    store = await open_store(grace=0.5)
    owner = await open_store()
    await owner.liveness.hold("owner")
    await _end_owner_sessions(postgres_url, store, "owner")
    assert owner._session is not None
    await owner._session.close()
    await _move_to_another_host(postgres_url, postgres_schema)
    assert await store.liveness.dead(OWNER) == frozenset()
    owner._session.start()
    assert await owner._session.wait_up(5)
    await asyncio.sleep(0.6)
    await owner._session.close()
    await _move_to_another_host(postgres_url, postgres_schema)
    assert await store.liveness.dead(OWNER) == frozenset()
    await asyncio.sleep(0.6)
    assert await store.liveness.dead(OWNER) == OWNER


async def test_a_dropped_session_is_opened_again_and_no_effect_starts_before(
    open_store: OpenStore, postgres_url: str
) -> None:
    owner, other = await open_store(patience=0.6), await open_store()
    await owner.liveness.hold("owner")
    (fence,) = await running(owner, "owner")
    session = owner._session
    assert session is not None
    await session.close()
    with pytest.raises(StoreError, match="starts no effect before it has one again") as caught:
        await do(owner, start(fence))
    assert caught.value.transient
    assert isinstance(await do(owner, c.Renew("owner", 60.0, (fence,))), c.Renewed)
    busy, beside = await owner.apply([start(fence), c.MarkReleasing(fence)])
    assert (busy, beside) == (c.Refused(c.Refusal.BUSY), c.Done())
    session.start()
    assert isinstance(await do(owner, start(fence)), c.EffectStored)
    await _end_owner_sessions(postgres_url, other, "owner")
    await until(lambda: session.opened >= 3)
    assert await session.wait_up(5)
    assert await other.liveness.dead(OWNER) == frozenset()


async def test_an_owner_that_came_back_is_not_taken_over(open_store: OpenStore) -> None:
    """Between looking at the lock and acting on it, its owner may have taken it again."""
    owner, other = await open_store(), await open_store()
    await owner.liveness.hold("owner")
    (fence,) = await running(owner, "owner")
    over = c.EndAttempt(
        fence, AttemptOutcome.EXPIRED, RunState.PENDING, guard=c.Guard.LAPSED, dead_owners=OWNER
    )
    assert await do(other, over) == c.Refused(c.Refusal.NOT_OWNER, RunState.RUNNING)
    assert await do(other, c.CancelRun(fence.run_id, dead_owners=OWNER)) == c.RunMoved(RunState.RUNNING)
    await owner.liveness.drop("owner")
    assert isinstance(await do(other, over), c.RunMoved)


async def test_an_owner_that_left_holds_nothing(open_store: OpenStore, postgres_url: str) -> None:
    owner, other = await open_store(), await open_store()
    await owner.liveness.hold("owner")
    await owner.liveness.drop("owner")
    assert await other.liveness.dead(OWNER) == frozenset(), "nothing is known of it, so its lease decides"
    await owner.liveness.hold("owner")
    assert await owner.liveness.dead(OWNER) == frozenset()
    async with psql(postgres_url) as connection:
        known = f"SELECT count(*) FROM {owner._schema}.owners"
        await other.liveness.forget("owner")
        assert await connection.fetchval(known) == 1, "who holds its lock is not forgotten"
        assert owner._session is not None
        await owner._session.close()
        async with asyncio.timeout(10):  # The server takes a moment to notice.
            while await connection.fetchval(known):
                await other.liveness.forget("owner")
                await asyncio.sleep(0.01)
    claimed = await do(owner, claim("owner"))
    assert claimed.runs == ()
