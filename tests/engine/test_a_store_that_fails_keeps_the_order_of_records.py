"""Store errors while running: nothing starts unrecorded, outcomes are tried again, and no record overtakes another."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from support.failing_store import FailingStore, holds
from support.whole_records import whole_records

from effectlog import EffectLog, Retry, StoreError, durable_task, effect
from effectlog.store.commands import Command, StartEffect

calls: list[str] = []


@effect(key="{name}")
def act(name: str) -> str:
    calls.append(name)
    return name.upper()


@effect(key="{name}")
async def aact(name: str) -> str:
    calls.append(name)
    return name.upper()


@durable_task(retry=Retry(delay=0.0))
def both(first: str, second: str) -> str:
    return act(first) + act(second)


@durable_task(retry=Retry(delay=0.0))
async def aboth(first: str, second: str) -> str:
    return await aact(first) + await aact(second)


FORMS = pytest.mark.parametrize("task", [both, aboth], ids=["sync", "async"])


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    calls.clear()


def failing(name: str, times: int, *, transient: bool) -> Any:
    left = [times]

    def fail(commands: Sequence[Command]) -> Exception | None:
        if left[0] and holds(commands, name):
            left[0] -= 1
            return StoreError("broken on purpose", transient=transient)
        return None

    return fail


@FORMS
@pytest.mark.parametrize("transient", [True, False])
async def test_an_effect_whose_started_record_cannot_be_written_is_not_called(
    store: FailingStore, task: Any, transient: bool
) -> None:
    started = threading.Event()

    def fail(commands: Sequence[Command]) -> Exception | None:
        if holds(commands, "StartEffect"):
            started.set()
            return StoreError("disk full", transient=transient)
        return None

    async with EffectLog(store, lease=0.4, check_store=False) as log:
        store.fail = fail
        run = await log.enqueue(task, "a", "b")
        async with log.worker():
            await asyncio.to_thread(started.wait)
            while (await run.record()).state == "running":
                pass
        record = await run.record()
    assert calls == []
    assert record.effects == ()
    if not transient:  # Else the lease ends first: whatever shares a batch with it can't be written either.
        assert record.state == "pending"
        assert record.attempts[0].outcome == "released"


@FORMS
@pytest.mark.parametrize("transient", [True, False])
async def test_a_completed_record_is_tried_again_while_the_lease_lives(
    store: FailingStore, task: Any, transient: bool
) -> None:
    async with EffectLog(store, check_store=False) as log:
        store.fail = failing("FinishEffect:completed", 3, transient=transient)
        assert await log.run(task, "a", "b") == "AB"
        (record,) = await whole_records(log)
    assert store.refused == 3
    assert calls == ["a", "b"]
    assert [effect.state for effect in record.effects] == ["completed", "completed"]
    assert len(record.attempts) == 1


@FORMS
@pytest.mark.parametrize("failures", [1, 2, 3, 4, 5])
async def test_no_record_overtakes_an_outcome_that_is_tried_again(
    store: FailingStore, task: Any, failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outcome and what follows it share a batch that fails for good, so each is tried by itself."""
    monkeypatch.setattr("effectlog.engine.queue.LINGER", 0.05)
    async with EffectLog(store, check_store=False) as log:
        store.fail = failing("FinishEffect:completed", failures, transient=False)
        run = await log.enqueue(task, "a", "b")
        async with log.worker():
            assert await run.result(timeout=10) == "AB"
    expected = ["StartEffect", "FinishEffect:completed"] * 2 + ["EndAttempt:succeeded"]
    assert store.kinds(run.id) == expected


@FORMS
async def test_a_run_does_not_end_over_an_outcome_that_was_never_recorded(
    store: FailingStore, task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given up after the lease, an outcome takes what was handed in behind it along."""
    monkeypatch.setattr("effectlog.engine.queue.LATE", 0.2)
    monkeypatch.setattr("effectlog.engine.queue.LINGER", 0.05)
    async with EffectLog(store, lease=0.4, check_store=False) as log:
        store.fail = lambda commands: (
            StoreError("broken", transient=False) if holds(commands, "FinishEffect:completed") else None
        )
        run = await log.enqueue(task, "a", "b")
        async with log.worker():
            while store.refused < 2 or (await run.record()).state == "running":
                assert (await run.record()).state in ("pending", "running")
                if len((await run.record()).attempts) > 1:
                    break
            store.fail = lambda _: None
            assert await run.result(timeout=10) == "AB"
        record = await run.record()
    first = store.kinds(run.id)[: store.kinds(run.id).index("EndAttempt:expired")]
    assert first == ["StartEffect"]
    assert [effect.state for effect in record.effects] == ["completed", "completed"]


async def test_a_defect_of_the_store_hurts_only_the_command_that_provokes_it(
    store: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("effectlog.engine.queue.LINGER", 0.05)

    def fail(commands: Sequence[Command]) -> Exception | None:
        bad = any(getattr(command, "key", "") == "bad" for command in commands)
        return TypeError("a defect") if bad and holds(commands, "StartEffect") else None

    async with EffectLog(store, check_store=False) as log:
        store.fail = fail
        good = [await log.enqueue(aboth, f"x{n}", f"y{n}") for n in range(20)]
        bad = await log.enqueue(aboth, "bad", "z")
        async with log.worker():
            for n, run in enumerate(good):
                assert await run.result(timeout=10) == f"X{n}Y{n}"
            while (await bad.record()).state == "running":
                pass
        record = await bad.record()
        assert all([len((await run.record()).attempts) == 1 for run in good])
    assert "bad" not in calls
    assert record.attempts[0].error is not None
    assert "a defect" in record.attempts[0].error.message


@durable_task(retry=Retry(delay=0.0))
def takes_it_for_a_failure() -> str:
    try:
        return act("a")
    except Exception:
        return "told the customer that it failed"


@durable_task(retry=Retry(delay=0.0))
async def in_a_group() -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(aact(name)) for name in ("a", "b", "c")]
    return [task.result() for task in tasks]


@pytest.mark.parametrize("task", [takes_it_for_a_failure, in_a_group], ids=lambda task: task.__name__)
async def test_the_stores_trouble_is_never_the_tasks(
    store: FailingStore, task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body that swallows or wraps the error: the run is given back, no attempt is used, no failure is made up."""
    monkeypatch.setattr("effectlog.worker.outcome.GIVE_BACK_DELAY", 0.05)
    async with EffectLog(store, check_store=False) as log:
        store.fail = lambda commands: (
            StoreError("broken on purpose", transient=False)
            if any(isinstance(c, StartEffect) and (c.key, c.fence.attempt) == ("a", 1) for c in commands)
            else None
        )
        run = await log.enqueue(task)
        async with log.worker():
            result = await run.result(timeout=10)
        record = await run.record()
    assert result == ("A" if task is takes_it_for_a_failure else ["A", "B", "C"])
    assert [attempt.outcome for attempt in record.attempts] == ["released", "succeeded"]
    assert calls.count("a") == 1
