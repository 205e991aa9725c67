"""Danger: one row that nobody can read any more keeps the workers of a PostgreSQL store from executing all the others.

The server refuses most damage by itself, so its rules are taken away first, as by somebody who knew better.
"""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest
from support import damage

from effectlog import EffectLog
from effectlog.codec import JsonCodec
from effectlog.store.postgres.store import PostgresStore

VALUES = {
    "text": ("cut {", "", None),
    "bigint": (-7, 0, 2**40, 2**63 - 1, None),
    "double precision": (1e300, -1e300, float("nan"), None),
    "bytea": (b'{"cut', b"\xff", b'{"!":"what","v":1}', None),
    "boolean": (True, None),
}
COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns
WHERE table_schema = 'effectlog' AND table_name IN ('runs', 'attempts', 'effects')
"""
CHECKS = """
SELECT conrelid::regclass AS of, conname FROM pg_constraint
WHERE contype = 'c' AND connamespace = 'effectlog'::regnamespace
"""


async def without_rules(connection: asyncpg.Connection) -> list[tuple[str, str, Any]]:
    """Take the tables' own rules away.

    Gives every damage that is then possible, as (table, column, value).
    """
    for of, name in await connection.fetch(CHECKS):
        await connection.execute(f"ALTER TABLE {of} DROP CONSTRAINT {name}")
    found = []
    for table, column, kind, nullable in await connection.fetch(COLUMNS):
        if column in damage.IDENTITIES:
            continue
        found += [(table, column, value) for value in VALUES[kind] if value is not None or nullable == "YES"]
    return found


async def damaged_store(url: str) -> list[str]:
    """A store with a run for each damage, and a whole one queued behind them all.

    The ids of the damaged ones.
    """
    codec, store = JsonCodec(), PostgresStore(url)
    await store.open()
    connection = await asyncpg.connect(url)
    planned = {f"{t}.{c}={v!r}": (t, c, v) for t, c, v in await without_rules(connection)}
    await asyncio.gather(*(store.apply(damage.run_like(run_id, codec)) for run_id in planned))
    await store.apply(damage.run_like("whole", codec))
    await store.close()
    for run_id, (table, column, value) in planned.items():
        owner = "id" if table == "runs" else "run_id"
        await connection.execute(
            f"UPDATE effectlog.{table} SET {column} = $1 WHERE {owner} = $2", value, run_id
        )
    await connection.close()
    return list(planned)


@pytest.mark.timeout(120)
async def test_every_damaged_column_fails_its_own_run_at_most(postgres_database: str) -> None:
    damaged = await damaged_store(postgres_database)
    assert len(damaged) > 150
    damage.requested.clear()
    async with EffectLog(postgres_database, check_store=False) as log:
        async with log.worker():
            async with asyncio.timeout(90):
                assert await (await log.get_run("whole")).result() == ["kept", "sent"]
                told = await damage.all_explained(log, damaged)
            fresh = await log.enqueue(damage.body, "fresh")
            assert await fresh.result(10) == ["new", "sent"], "the worker does not claim any more"
        records = {record.id for record in await log.list_runs(task="fuzz.damaged", state="failed")}
        assert len(records) > 20, "the list does not show what failed"
    again = [run for run, key in damage.requested if key == "done" and run != "fresh"]
    assert again == [], "what was recorded as completed was requested again"
    assert sum("Damaged" in str(what) for what in told.values()) > 15


async def test_a_run_that_can_not_be_taken_over_keeps_no_other_one_waiting(
    postgres_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with EffectLog(postgres_database, check_store=False) as log:
        stuck = await log.enqueue(damage.body, "stuck")
        connection = await asyncpg.connect(postgres_database)
        await connection.execute(
            "UPDATE effectlog.runs SET state = 'running', attempt = 1, owner = 'gone', lease_clock = "
            "'server', crashes = 9223372036854775807"
        )
        await connection.close()
        async with log.worker():
            for number in range(3):
                fresh = await log.enqueue(damage.body, f"fresh-{number}")
                assert await fresh.result(10) == ["new", "sent"]
        assert (await stuck.record()).state == "running"
    assert f"run {stuck.id} of fuzz.damaged can't be taken over" in caplog.text
