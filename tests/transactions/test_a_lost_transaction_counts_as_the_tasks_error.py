"""A store that goes away between two statements of a transactional effect: nothing happened, and no try is used."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from support.orders import order, orders, set_hook
from support.postgres_server import Server
from support.whole_records import whole_records

from effectlog import EffectLog, EffectState, Retry, current_transaction, durable_task, effect

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Coroutine, Iterator


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server().start()
    yield server
    server.stop(how=signal.SIGQUIT)


class OrderError(Exception):
    """The application's own words for whatever its database says."""


events: dict[str, Any] = {}


async def plainly(connection: asyncpg.Connection) -> None:
    await connection.execute("INSERT INTO orders VALUES ('second', 1)")


async def in_own_words(connection: asyncpg.Connection) -> None:
    try:
        await plainly(connection)
    except Exception as error:
        raise OrderError("can't order") from error


async def in_a_group(connection: asyncpg.Connection) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(plainly(connection))


@effect(key="two", transactional=True)
async def two_statements() -> str:
    connection = current_transaction()
    await connection.execute("INSERT INTO orders VALUES ('first', 1)")
    if not events["away"].is_set():
        events["between"].set()
        await events["away"].wait()
    await events["second"](connection)
    return "done"


@durable_task(retry=Retry(max_attempts=1))
async def orders_two() -> str:
    return await two_statements()


async def _end_sessions(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'effectlog effect' "
        "AND datname = current_database()"
    )
    await connection.close()


async def _lose_between_two_statements(url: str, second: Any, lose: Coroutine[Any, Any, Any]) -> None:
    events.update(between=asyncio.Event(), away=asyncio.Event(), second=second)
    async with EffectLog(url) as log:
        running = asyncio.ensure_future(log.run(orders_two))
        await asyncio.wait_for(events["between"].wait(), 10)
        await lose
        events["away"].set()
        assert await asyncio.wait_for(running, 20) == "done"
        (record,) = await whole_records(log)
    assert await orders(url) == ["first", "second"]
    assert [attempt.outcome for attempt in record.attempts] == ["released", "succeeded"]
    assert record.attempts[0].error is not None
    assert "before the commit" in record.attempts[0].error.message
    assert record.effects[0].state is EffectState.COMPLETED


@pytest.mark.parametrize("second", [plainly, in_own_words, in_a_group])
async def test_a_session_ended_between_two_statements_uses_no_try(
    postgres: str, second: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("effectlog.worker.outcome.GIVE_BACK_DELAY", 0.05)
    await _lose_between_two_statements(postgres, second, _end_sessions(postgres))


async def _restart(server: Server) -> None:
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.start)


async def test_a_restart_between_two_statements_uses_no_try(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("effectlog.worker.outcome.GIVE_BACK_DELAY", 0.05)
    connection = await asyncpg.connect(server.url)
    await connection.execute("CREATE TABLE orders (id TEXT, cents BIGINT)")
    await connection.close()
    await _lose_between_two_statements(server.url, plainly, _restart(server))


async def test_an_error_of_the_function_is_its_own_though_the_connection_is_fine(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreachable(_: asyncpg.Connection) -> None:
        raise ConnectionError("the payment service can't be reached")

    events.update(between=asyncio.Event(), away=asyncio.Event(), second=unreachable)
    events["away"].set()
    async with EffectLog(postgres) as log:
        with contextlib.suppress(Exception):
            await log.run(orders_two)
        (record,) = await whole_records(log)
    assert [attempt.outcome for attempt in record.attempts] == ["error"]


async def test_a_full_disk_under_a_statement_uses_no_try(
    sqlite_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("effectlog.worker.outcome.GIVE_BACK_DELAY", 0.05)
    full = [True]

    def fill(connection: sqlite3.Connection) -> None:
        if full and full.pop():
            (working_set,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {working_set}")
            connection.execute("INSERT INTO orders VALUES (?, 1)", ("x" * 1_000_000,))

    set_hook("", fill)
    async with EffectLog(sqlite_path) as log:
        assert await log.run(order, "a") == "A"
        (record,) = await whole_records(log)
    set_hook("", lambda _: None)
    assert await orders(sqlite_path) == ["a"]
    assert [attempt.outcome for attempt in record.attempts] == ["released", "succeeded"]
