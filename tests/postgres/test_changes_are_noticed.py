"""A change must wake other processes at once, and within the poll interval whatever happens to the listener."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from support.postgres_commands import create, new_run, psql, running, start, until

from effectlog.store import commands as c
from effectlog.store.postgres import store as postgres

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import pytest

    from effectlog.store.postgres.store import PostgresStore

    OpenStore = Callable[..., Awaitable[PostgresStore]]


async def _quiet(store: PostgresStore) -> None:
    """Wait until nothing is announced any more."""
    assert store._session is not None
    assert await store._session.wait_up(5)
    while store._news.is_set():
        await store.changed()
        await asyncio.sleep(0.05)


async def _noticed(store: PostgresStore, change: Awaitable[object]) -> float:
    await _quiet(store)
    waiting = asyncio.ensure_future(store.changed())
    await asyncio.sleep(0)
    await change
    begun = time.monotonic()
    await waiting
    return time.monotonic() - begun


async def test_another_process_is_woken_at_once(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "POLL_INTERVAL", 30.0)
    store, other = await open_store(), await open_store()
    await _quiet(other)
    assert await _noticed(store, other.apply([create(new_run())])) < 5.0
    (fence,) = await running(other)
    assert await _noticed(store, other.apply([c.CancelRun(fence.run_id)])) < 5.0


async def test_what_nobody_waits_for_wakes_nobody(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = await open_store(), await open_store()
    (fence,) = await running(other)
    await _quiet(store)
    await other.apply([start(fence), c.Renew("a", 60.0, (fence,)), c.ReportWorker("a", "w", "h", 1, 1, None)])
    await other.apply([c.Purge(1e9, (), 10)])
    await asyncio.sleep(0.1)
    assert not store._news.is_set()
    monkeypatch.setattr(postgres, "POLL_INTERVAL", 0.05)
    await asyncio.wait_for(store.changed(), 20)


async def test_a_killed_listener_is_opened_again_and_caught_up(
    open_store: OpenStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = await open_store(), await open_store()
    session = store._session
    assert session is not None
    await _quiet(store)
    opened = session.opened
    async with psql(postgres_url) as connection:
        assert await connection.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = "
            "'effectlog session' AND datname = current_database() AND pid = ANY($1::int[])",
            [session._connection.get_server_pid()],  # type: ignore[union-attr]
        )
    await until(lambda: session.opened > opened and session.up)
    assert store._news.is_set(), "what was announced while nobody listened has to be looked for"
    monkeypatch.setattr(postgres, "POLL_INTERVAL", 30.0)
    assert await _noticed(store, other.apply([create(new_run())])) < 5.0


async def test_without_any_announcement_the_poll_interval_ends_the_wait(store: PostgresStore) -> None:
    await _quiet(store)
    begun = time.monotonic()
    await store.changed()
    assert time.monotonic() - begun < postgres.POLL_INTERVAL + 2.0
