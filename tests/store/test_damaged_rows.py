"""A row that was damaged by hand must not take the others along, and must be named."""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from effectlog.errors import StoreError
from effectlog.model import Policy
from effectlog.store import commands as c
from effectlog.store.protocol import RunFilter
from effectlog.store.rows import NewRun, RequestClock
from effectlog.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

DAMAGE = [
    "UPDATE effectlog_runs SET attempt_outcome = 'vanished' WHERE id = 'bad'",
    "UPDATE effectlog_attempts SET outcome = 'vanished', ended_at = 1 WHERE run_id = 'bad'",
    "UPDATE effectlog_effects SET fingerprints = '{' WHERE run_id = 'bad'",
    "UPDATE effectlog_effects SET executing = '1' WHERE run_id = 'bad'",
    "UPDATE effectlog_effects SET policy = 'hope' WHERE run_id = 'bad'",
]


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_row_is_named_and_others_stay_readable(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "effectlog.db"
    store = SqliteStore(path)
    await store.open()
    for name in ("good", "bad"):
        clock = RequestClock(1.0, 1.0, "boot")
        fence = c.Fence(name, 1)
        start = c.StartEffect(fence, "k", 0, "k", str(uuid.uuid4()), 0, {}, Policy.RESEND, clock)
        await store.apply([c.CreateRuns((NewRun(name, "task", b"[]"),), "task")])
        await store.apply([c.Claim("a", "a", 60.0, (), 1, run_id=name), start])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(damage)
    bad = await store.get("bad")
    assert bad is not None
    assert bad.damage is not None
    assert "of run bad is damaged" in bad.damage
    assert [run.row.id for run in await store.find(RunFilter())] == ["bad", "good"]
    good = await store.get("good")
    assert good is not None
    assert len(good.effects) == 1
    finish = c.FinishEffect(c.Fence("good", 1), "k", c.RequestOutcome.COMPLETED, result=b"1")
    (outcome,) = await store.apply([finish])
    assert isinstance(outcome, c.EffectStored)
    await store.close()


async def test_a_run_in_no_known_state_is_named_and_touched_by_nobody(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "effectlog.db")
    await store.open()
    await store.apply([c.CreateRuns((NewRun(name, "task", b"[]"),), "task") for name in ("good", "bad")])
    await store.apply([c.Claim("a", "a", 60.0, (), 1, run_id=name) for name in ("good", "bad")])
    with closing(sqlite3.connect(tmp_path / "effectlog.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("UPDATE effectlog_runs SET state = 'lost' WHERE id = 'bad'")
    with pytest.raises(StoreError, match="the row of run bad is damaged") as error:
        await store.get("bad")
    assert not error.value.transient
    fences = (c.Fence("good", 1), c.Fence("bad", 1))
    (renewed,) = await store.apply([c.Renew("a", 60.0, fences)])
    assert isinstance(renewed, c.Renewed)
    assert renewed.lost == {"bad"}, "a heartbeat for many runs fails for one of them"
    await store.close()
