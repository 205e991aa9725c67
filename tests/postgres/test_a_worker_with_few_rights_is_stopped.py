"""Schema deployed apart from code: ``effectlog migrate`` by its owner, and a worker that may create nothing."""

from __future__ import annotations

import subprocess
import sys
import uuid
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import shop
from helpers import psql

from effectlog import EffectLog, StoreRefused, current_transaction, durable_task, effect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# As the README says.
GRANTS = """
GRANT USAGE ON SCHEMA effectlog TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA effectlog TO {role};
"""


@pytest.fixture
async def worker_url(postgres_database: str) -> AsyncIterator[str]:
    role = f"worker_{uuid.uuid4().hex[:12]}"
    parts = urlsplit(postgres_database)
    async with psql(postgres_database) as connection:
        await connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'secret'")
        await connection.execute(f"CREATE TABLE orders (id TEXT); GRANT INSERT, SELECT ON orders TO {role}")
        yield parts._replace(netloc=f"{role}:secret@{parts.hostname}:{parts.port}").geturl()
        await connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def _migrate(url: str) -> str:
    command = [sys.executable, "-m", "effectlog", "migrate", "--store", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@effect(key="write", transactional=True)
async def write() -> None:
    await current_transaction().execute("INSERT INTO orders VALUES ('a')")


@durable_task
async def writes() -> None:
    await write()


async def test_it_can_do_everything_but_create(postgres_database: str, worker_url: str) -> None:
    role = urlsplit(worker_url).username
    with pytest.raises(StoreRefused, match="effectlog migrate"):
        async with EffectLog(worker_url):
            pass
    assert _migrate(postgres_database)
    async with psql(postgres_database) as owner:
        await owner.execute(GRANTS.format(role=role))
    async with EffectLog(worker_url) as log:
        run = await log.enqueue(shop.sell, "a")
        async with log.worker():
            assert await run.result(timeout=30) == "charge of a"
            await log.run(writes)
        async with psql(worker_url) as connection, connection.transaction():
            await log.within(connection).enqueue(shop.sell, "b")
        assert len(await log.list_runs()) == 3
        await log.cancel_runs(state="pending")
        assert await log.purge(0) == 3
    async with psql(postgres_database) as owner:
        assert await owner.fetchval("SELECT count(*) FROM orders") == 1


async def test_migrating_again_changes_nothing(postgres_database: str) -> None:
    _migrate(postgres_database)
    async with EffectLog(postgres_database) as log:
        run = await log.enqueue(shop.sell, "a")
    _migrate(postgres_database)
    async with EffectLog(postgres_database) as log:
        assert [record.id for record in await log.list_runs()] == [run.id]
