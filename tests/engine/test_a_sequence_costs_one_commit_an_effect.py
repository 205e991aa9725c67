"""Group commit, counted: what shares a transaction, and that nothing waits for it longer than a moment."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.failing_store import FailingStore, holds
from support.whole_records import whole_records

from effectlog import EffectLog, durable_task, effect

COUNT = 40
commits: list[int] = []
log_of_test: list[EffectLog] = []


@effect(key="n:{n}")
def act(n: int) -> int:
    return n


@effect(key="n:{n}")
async def aact(n: int) -> int:
    return n


def note_commits() -> None:
    commits.append(log_of_test[0]._engine.commits)


@durable_task
def in_sequence() -> int:
    note_commits()
    total = sum(act(n) for n in range(COUNT))
    note_commits()
    return total


@durable_task
async def ain_sequence() -> int:
    note_commits()
    total = 0
    for n in range(COUNT):
        total += await aact(n)
    note_commits()
    return total


@durable_task
async def side_by_side() -> int:
    note_commits()
    total = sum(await asyncio.gather(*(aact(n) for n in range(COUNT))))
    note_commits()
    return total


@pytest.fixture(autouse=True)
def _fresh() -> None:
    commits.clear()
    log_of_test.clear()


@pytest.mark.parametrize("task", [in_sequence, ain_sequence], ids=["sync", "async"])
async def test_effects_in_sequence_cost_one_durable_commit_each(
    tmp_path: Path, task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The completed record goes along with the next started one.

    A long linger keeps a busy machine from parting them.
    """
    monkeypatch.setattr("effectlog.engine.queue.LINGER", 0.1)
    async with EffectLog(str(tmp_path / "runs.db"), check_store=False) as log:
        log_of_test.append(log)
        assert await log.run(task) == sum(range(COUNT))
        assert commits[1] - commits[0] == COUNT
        (record,) = await whole_records(log)
    assert [effect.state for effect in record.effects] == ["completed"] * COUNT


async def test_concurrent_effects_share_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("effectlog.engine.queue.LINGER", 0.1)
    async with EffectLog(str(tmp_path / "runs.db"), check_store=False) as log:
        log_of_test.append(log)
        assert await log.run(side_by_side) == sum(range(COUNT))
        assert commits[1] - commits[0] <= 4


@durable_task
async def blocks_after_an_effect(path: str) -> float:
    """Looks at the file from inside the loop that it blocks."""
    await aact(1)
    returned = time.monotonic()
    with closing(sqlite3.connect(path)) as connection, connection:
        while time.monotonic() < returned + 5:
            (states,) = connection.execute("SELECT group_concat(state) FROM effectlog_effects").fetchone()
            if states == "completed":
                break
    connection.close()
    return time.monotonic() - returned


@pytest.mark.timed
async def test_a_completed_record_is_committed_though_its_callers_loop_is_blocked(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.db")
    took = []
    for number in range(5):
        async with EffectLog(f"{path}{number}", check_store=False) as log:
            took.append(await log.run(blocks_after_an_effect, f"{path}{number}"))
    assert min(took) < 0.02, took


@effect(key="child")
def before_child() -> str:
    return "x"


@durable_task
def child(text: str) -> str:
    return text


@durable_task
async def makes_a_child() -> None:
    before_child()
    await log_of_test[0].enqueue(child.with_options(idempotency_key="c"), "x")
    await log_of_test[0].emit("nobody-listens", 1, idempotency_key="k")


@durable_task(on="nobody-listens")
def listener(payload: int) -> int:
    return payload


async def test_what_an_attempt_writes_comes_after_what_it_has_recorded(tmp_path: Path) -> None:
    """A child is never durable before the effect that led to it: here the outcome fails twice first."""
    from effectlog import StoreError

    store = FailingStore(str(tmp_path / "runs.db"))
    left = [2]

    def fail(commands: Any) -> Exception | None:
        if left[0] and holds(commands, "FinishEffect:completed"):
            left[0] -= 1
            return StoreError("broken", transient=False)
        return None

    async with EffectLog(store, check_store=False) as log:
        log_of_test.append(log)
        store.fail = fail
        run = await log.enqueue(makes_a_child)
        async with log.worker(tasks=[makes_a_child]):
            await run.result(timeout=10)
    assert left == [0]
    assert store.kinds(run.id) == [
        "StartEffect",
        "FinishEffect:completed",
        "CreateRuns",
        "CreateRuns",
        "EndAttempt:succeeded",
    ]
