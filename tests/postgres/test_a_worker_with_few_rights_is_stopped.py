"""Schema deployed apart from code: ``effectlog migrate`` by its owner, and a worker that may create nothing."""

from __future__ import annotations

import subprocess
import sys
import uuid
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import shop
from support.postgres_commands import psql

from effectlog import EffectLog, StoreRefused, current_transaction, durable_task, effect
from effectlog.store.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# As docs/postgresql.md says.
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


def _command(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "effectlog", *args[:-1], "--store", args[-1]]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


def _migrate(url: str) -> str:
    done = _command("migrate", url)
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


@pytest.fixture
async def granted(postgres_database: str, worker_url: str) -> str:
    """The database's owner migrated it, and the worker's role has what docs/postgresql.md says.

    Returns its name.
    """
    role = urlsplit(worker_url).username
    assert role is not None
    async with EffectLog(postgres_database) as log:
        await log.run(shop.sell, "a")
    async with psql(postgres_database) as owner:
        await owner.execute(GRANTS.format(role=role))
    return role


NEEDED = [
    f"{right} on {table}"
    for table in ("attempts", "effects", "owners", "runs", "subscriptions", "workers", "writers")
    for right in ("SELECT", "INSERT", "UPDATE", "DELETE")
] + [
    *("SELECT on idempotency_keys", "INSERT on idempotency_keys", "DELETE on idempotency_keys"),
    *("SELECT on migrations", "UPDATE on migrations"),
]


async def test_every_right_that_is_missing_is_named_at_open(
    postgres_database: str, worker_url: str, granted: str
) -> None:
    async with psql(postgres_database) as owner:
        for needed in NEEDED:
            right, _, table = needed.partition(" on ")
            await owner.execute(f"REVOKE {right} ON effectlog.{table} FROM {granted}")
            store = PostgresStore(worker_url)
            with pytest.raises(StoreRefused) as refused:
                await store.open()
            told = f"lacks {right} on effectlog.{table}; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES"
            assert told in str(refused.value) or f"permission denied for table {table}" in str(refused.value)
            await owner.execute(f"GRANT {right} ON effectlog.{table} TO {granted}")
        await owner.execute(f"REVOKE USAGE ON SCHEMA effectlog FROM {granted}")
        with pytest.raises(StoreRefused, match="permission denied for schema"):
            await PostgresStore(worker_url).open()
        tables = await owner.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'effectlog'")
    assert {row[0] for row in tables} == {needed.split()[-1] for needed in NEEDED}


async def test_row_security_that_can_hide_a_row_is_named_at_open(
    postgres_database: str, worker_url: str, granted: str
) -> None:
    async with psql(postgres_database) as owner:
        await owner.execute("ALTER TABLE effectlog.effects ENABLE ROW LEVEL SECURITY")
        with pytest.raises(StoreRefused, match=r"effectlog\.effects \(no policy\)"):
            await PostgresStore(worker_url).open()
        await owner.execute("CREATE POLICY mine ON effectlog.effects USING (name = 'charge')")
        with pytest.raises(StoreRefused, match=r"effectlog\.effects \(mine\)"):
            await PostgresStore(worker_url).open()
        assert _command("runs", worker_url).returncode == 1
        await owner.execute(f"CREATE POLICY all_rows ON effectlog.effects TO {granted} USING (true)")
        async with EffectLog(worker_url) as log:
            assert await log.run(shop.sell, "a") == "charge of a"
        await owner.execute("CREATE POLICY less ON effectlog.effects AS RESTRICTIVE USING (true)")
        with pytest.raises(StoreRefused, match=r"all_rows, less, mine"):
            await PostgresStore(worker_url).open()


async def test_what_only_reads_needs_select_alone(
    postgres_database: str, worker_url: str, granted: str
) -> None:
    async with psql(postgres_database) as owner:
        await owner.execute(f"REVOKE INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA effectlog FROM {granted}")
        await owner.execute(f"ALTER ROLE {granted} SET default_transaction_read_only = on")
        run_id = await owner.fetchval("SELECT id FROM effectlog.runs")
        for args in (("runs",), ("show", run_id), ("doctor",)):
            done = _command(*args, worker_url)
            assert (done.returncode, done.stderr) == (0, ""), args
        refused = _command("cancel", run_id, worker_url)
        assert refused.returncode == 1
        assert "default_transaction_read_only" in refused.stderr
        await owner.execute(f"ALTER ROLE {granted} RESET default_transaction_read_only")
        refused = _command("cancel", run_id, worker_url)
        assert refused.returncode == 1
        assert "INSERT on effectlog.attempts" in refused.stderr


async def test_migrating_again_changes_nothing(postgres_database: str) -> None:
    _migrate(postgres_database)
    async with EffectLog(postgres_database) as log:
        run = await log.enqueue(shop.sell, "a")
    _migrate(postgres_database)
    async with EffectLog(postgres_database) as log:
        assert [record.id for record in await log.list_runs()] == [run.id]
