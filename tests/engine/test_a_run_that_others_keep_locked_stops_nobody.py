"""A run kept by somebody else's transaction: its record is tried again, and it is no loss of the lease."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from effectlog import EffectLog, Retry, StoreError, durable_task, effect
from effectlog.store import commands as c
from effectlog.store.sqlite.store import SqliteStore

calls: list[str] = []


@effect(key="{name}")
async def act(name: str) -> str:
    calls.append(name)
    return name.upper()


@durable_task(retry=Retry(delay=0.0))
async def task(name: str) -> str:
    return await act(name)


class BusyStore(SqliteStore):
    """A real store in which ``busy`` says, for each command, whether somebody else keeps its run."""

    busy: Callable[[c.Command], bool] = staticmethod(lambda _: False)

    async def apply(self, commands: Sequence[c.Command]) -> list[c.Outcome]:
        aside = [self.busy(command) for command in commands]
        done = iter(await super().apply([x for x, away in zip(commands, aside, strict=True) if not away]))
        return [c.Refused(c.Refusal.BUSY) if away else next(done) for away in aside]


def times(count: int, matches: Callable[[c.Command], bool]) -> Callable[[c.Command], bool]:
    left = [count]

    def busy(command: c.Command) -> bool:
        left[0] -= matches(command)
        return matches(command) and left[0] >= 0

    return busy


@pytest.fixture
def store(tmp_path: Path) -> BusyStore:
    calls.clear()
    return BusyStore(str(tmp_path / "runs.db"))


async def test_a_start_and_an_outcome_are_tried_again(store: BusyStore) -> None:
    async with EffectLog(store, check_store=False) as log:
        for kind in (c.StartEffect, c.FinishEffect, c.EndAttempt):
            store.busy = times(3, lambda command, kind=kind: isinstance(command, kind))  # type: ignore[misc]
            name = kind.__name__
            run = await log.enqueue(task, name)
            async with log.worker():
                assert await run.result(timeout=10) == name.upper()
            assert len((await run.record()).attempts) == 1
    assert len(calls) == 3


async def test_the_rest_of_what_was_handed_in_keeps_its_outcomes(store: BusyStore) -> None:
    async with EffectLog(store, check_store=False) as log:
        store.busy = times(2, lambda command: getattr(command, "idempotency_key", "") == "b")
        runs = await log.enqueue_many(task, [("a",), ("b",), ("c",)], idempotency_keys=["a", "b", "c"])
        assert [run.created for run in runs] == [True, True, True]
        assert [(await run.record()).args for run in runs] == [{"name": name} for name in "abc"]


async def test_who_may_not_wait_longer_is_told_what_to_do(
    store: BusyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("effectlog.engine.queue.PATIENCE", 0.1)
    async with EffectLog(store, check_store=False) as log:
        run = await log.enqueue(task, "a")
        store.busy = lambda command: isinstance(command, c.CancelRun)
        with pytest.raises(StoreError, match=f"run {run.id} is kept locked by somebody else") as caught:
            await asyncio.wait_for(run.cancel(), 10)
        assert caught.value.transient


async def test_a_start_that_stays_busy_is_no_lost_lease(
    store: BusyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("effectlog.worker.outcome.GIVE_BACK_DELAY", 0.05)
    async with EffectLog(store, lease=1.0, check_store=False) as log:
        store.busy = lambda command: isinstance(command, c.StartEffect) and command.fence.attempt == 1
        run = await log.enqueue(task, "a")
        async with log.worker():
            assert await run.result(timeout=20) == "A"
        record = await run.record()
    assert [attempt.outcome for attempt in record.attempts] == ["released", "succeeded"]
    assert calls == ["a"]
