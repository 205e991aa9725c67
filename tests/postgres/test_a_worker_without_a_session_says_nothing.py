"""A worker that can't get its session back starts nothing: nobody is told, and it takes runs from those that could."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from support.postgres_commands import psql, until

from effectlog import EffectLog, durable_task, effect
from effectlog.cli.doctor import examine
from effectlog.store.postgres import session as postgres_session

if TYPE_CHECKING:
    import pytest

ROLE = "worker_without_session"


@effect(key="charge:{n}")
async def charge(n: int) -> int:
    return n


@durable_task(name="session.charges")
async def charges(n: int) -> int:
    return await charge(n)


async def test_it_is_told_and_leaves_the_runs_to_others(
    postgres_database: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_session, "_TOLD_AFTER", 0.3)
    caplog.set_level(logging.INFO, "effectlog")
    parts = urlsplit(postgres_database)
    url = parts._replace(netloc=f"{ROLE}:s3cret@{parts.hostname}:{parts.port}").geturl()

    def told(what: str) -> bool:
        return any(what in record.getMessage() for record in caplog.records)

    async with psql(postgres_database) as server, EffectLog(postgres_database) as peers:
        await server.execute(f"CREATE ROLE {ROLE} SUPERUSER LOGIN PASSWORD 's3cret'")
        try:
            async with EffectLog(url) as log, log.worker(name="cut off"):
                assert await (await log.enqueue(charges, 1)).result(10) == 1
                await server.execute(f"ALTER ROLE {ROLE} NOLOGIN")
                await server.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = "
                    "'effectlog session' AND usename = $1",
                    ROLE,
                )
                await until(lambda: told("claims no run and starts no effect"))
                assert told("is not permitted to log in")
                assert not told("s3cret")

                (problem,) = (await examine(peers.administration, timedelta(days=7))).problems
                assert "worker cut off (pid " in problem
                assert "has no session with the server" in problem

                run = await peers.enqueue(charges, 2)
                async with peers.worker(name="peer"):
                    assert await run.result(10) == 2
                assert [attempt.worker for attempt in (await run.record()).attempts] == ["peer"]

                waiting = await peers.enqueue(charges, 3)
                await server.execute(f"ALTER ROLE {ROLE} LOGIN")
                assert await waiting.result(10) == 3
                assert told("the session is there again")
                (only,) = (await waiting.record()).attempts
                assert only.worker == "cut off"
                assert (await examine(peers.administration, timedelta(days=7))).problems == []
        finally:
            await server.execute(f"DROP OWNED BY {ROLE}; DROP ROLE {ROLE}")
