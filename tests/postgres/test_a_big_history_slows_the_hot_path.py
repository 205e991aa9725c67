"""What workers ask all the time must be answered by an index, however many runs have ended and wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from effectlog.store.postgres.schema import statements_for

if TYPE_CHECKING:
    from effectlog.store.postgres.store import PostgresStore

ENDED, PENDING = 50_000, 5_000
FILL = """
INSERT INTO {schema}.runs (id, task, state, due_at, created_at, finished_at, attempt, args, result)
SELECT 'ended-' || n, 'task', 'succeeded', n, n, n, 1, '[]', '1' FROM generate_series(1, {ended}) AS n;
INSERT INTO {schema}.runs (id, task, state, due_at, created_at, args)
SELECT 'pending-' || n, 'task', 'pending', n, n, '[]' FROM generate_series(1, {pending}) AS n;
"""
HOT = [
    "next_due",
    "load_owners",
    "lapsed",
    "next_lapse",
    "read_states",
    "claimable",
    "claimable_keyed",
    "count_running",
    "busy_key",
    "lock_runs",
    "existing_runs",
    "load_runs",
    "load_payloads",
    "update_run",
    "purgeable",
    "purge_runs",
    "fail_damaged",
    "find_runs",
    "find_runs_in_state",
    "find_runs_of_task",
    "find_runs_of_task_in_state",
]


@pytest.fixture
def filled(store: PostgresStore, postgres_url: str, postgres_schema: str) -> psycopg.Connection:
    del store  # It made the schema.
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(FILL.format(schema=postgres_schema, ended=ENDED, pending=PENDING).encode())
        connection.execute(f"ANALYZE {postgres_schema}.runs".encode())
    return psycopg.connect(postgres_url, autocommit=True)


async def test_no_statement_reads_the_whole_table(filled: psycopg.Connection, postgres_schema: str) -> None:
    with filled as connection:
        if connection.info.server_version < 160000:
            pytest.skip("before PostgreSQL 16 the plan for any arguments can't be asked for")
        reads = {}
        for name in HOT:
            statement = "EXPLAIN (GENERIC_PLAN) " + statements_for(postgres_schema)[name]
            plan = "\n".join(row[0] for row in connection.execute(statement.encode()))
            assert "runs" in plan, name
            reads[name] = "Seq Scan on runs" in plan
    assert [name for name, whole in reads.items() if whole] == []
