"""Text and numbers at the edges must come back as they went, or be refused without hurting anybody else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.postgres_commands import create, do, finish, new_run, running, start

from effectlog.errors import StoreError
from effectlog.model import AttemptOutcome, ErrorInfo, RunState
from effectlog.store import commands as c
from effectlog.store.rows import NewRun

if TYPE_CHECKING:
    from effectlog.store.postgres.store import PostgresStore

ODD = "quote ' double \" back \\ percent % brace {batch} emoji \U0001f9fe right-to-left \u202e combining e\u0301 \x01\x1f"


async def test_odd_text_and_bytes_come_back(store: PostgresStore) -> None:
    args, fingerprints = bytes(range(256)) * 40, json.dumps({ODD: ODD})
    run = NewRun("odd", ODD, args, correlation_id=ODD, parent_id=ODD, trace=ODD, concurrency_key=ODD)
    await store.apply([c.CreateRuns((run,), ODD, ODD, fingerprints=fingerprints)])
    stored = await store.get("odd")
    assert stored is not None
    assert (stored.row.task, stored.args, stored.scope, stored.idempotency_key) == (ODD, args, ODD, ODD)
    assert (stored.correlation_id, stored.parent_id, stored.trace) == (ODD, ODD, ODD)
    again = await do(store, c.CreateRuns((new_run(),), ODD, ODD))
    assert (again.run_ids, again.created, again.fingerprints) == (("odd",), False, fingerprints)
    claimed = await do(store, c.Claim(ODD, ODD, 60.0, (c.TaskLimit((ODD,)),), 1))
    fence = c.Fence("odd", claimed.runs[0].row.attempt)
    await do(store, start(fence, ODD))
    finished = await do(store, c.FinishEffect(fence, ODD, c.RequestOutcome.COMPLETED, result=args))
    assert finished.effect.result == args
    error = ErrorInfo(ODD, ODD * 1000, ODD)
    await do(store, c.EndAttempt(fence, AttemptOutcome.ERROR, RunState.FAILED, error=error))
    stored = await store.get("odd")
    assert stored is not None
    assert (stored.row.error, stored.attempts[0].error, stored.attempts[0].worker) == (error, error, ODD)


async def test_counts_beyond_32_bits(store: PostgresStore) -> None:
    run = new_run(depth=2**40)
    await store.apply([create(run), c.ReportWorker("o", "w", "h", 2**33, 2**34, None)])
    stored = await store.get(run.id)
    assert stored is not None
    assert stored.depth == 2**40
    (worker,) = await store.workers()
    assert (worker.pid, worker.concurrency) == (2**33, 2**34)


async def test_one_value_of_a_mebibyte_and_a_thousand_runs(store: PostgresStore) -> None:
    big = NewRun("big", "task", b"x" * 2**20)
    many = [new_run("many") for _ in range(1000)]
    await store.apply([create(big), c.CreateRuns(tuple(many), "many", "all of them")])
    stored = await store.get("big")
    assert stored is not None
    assert stored.args == big.args
    again = await do(store, c.CreateRuns((new_run("many"),), "many", "all of them"))
    assert again.run_ids == tuple(run.id for run in many)


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ("a\x00b", "NUL or a lone surrogate"),
        ("a\ud800b", "NUL or a lone surrogate"),
    ],
)
async def test_text_that_no_database_stores_is_refused_and_changes_nothing(
    bad: str, named: str, store: PostgresStore
) -> None:
    (fence,) = await running(store)
    run = new_run()
    for command in (create(new_run(), key=bad), start(fence, bad), create(new_run(correlation_id=bad))):
        with pytest.raises(StoreError, match=named) as caught:
            await store.apply([create(run), command])
        assert not caught.value.transient
        assert await store.get(run.id) is None
    assert isinstance(await do(store, start(fence)), c.EffectStored)
    assert (await do(store, finish(fence))).effect.result == b"1"


async def test_a_number_beyond_64_bits_is_refused(store: PostgresStore) -> None:
    with pytest.raises(StoreError) as caught:
        await store.apply([create(new_run(depth=2**63))])
    assert not caught.value.transient
    assert (await do(store, create(new_run(depth=2**63 - 1)))).created
