"""After a failure the engine's loop commits in place of the store's own thread: until that is dealt with, and no longer."""

import asyncio
import contextlib
from typing import Any

import pytest
from support.failing_store import FailingStore

from effectlog import EffectLog, StoreClosed, StoreError, durable_task
from effectlog.store import commands as c


@durable_task
def note(text: str) -> str:
    return text


async def test_the_stores_thread_commits_again_after_a_failure(store: FailingStore) -> None:
    left = [2]

    def fail(_: Any) -> Exception | None:
        left[0] -= 1
        return StoreError("busy for a moment", transient=True) if left[0] >= 0 else None

    async with EffectLog(store, check_store=False) as log:
        engine = log.administration.engine
        store.fail = fail
        for _ in range(2):
            with contextlib.suppress(StoreError):  # A caller that gave no time to try again is told at once.
                await engine.commit(c.RemoveWorker("nobody"))
        assert left == [0]
        before = store.on_thread
        for text in ("a", "b", "c"):
            await log.enqueue(note, text)
        assert store.on_thread - before == (0 if store.awaited else 3)


async def test_a_defect_of_ours_leaves_nobody_waiting(
    store: FailingStore, recwarn: pytest.WarningsRecorder
) -> None:
    def defect(*_: Any) -> None:
        raise ZeroDivisionError

    async with EffectLog(store, check_store=False) as log:
        log.administration.engine.post(c.RemoveWorker("nobody"), until=0.0, resolve=defect)
        with pytest.raises(StoreClosed):
            for _ in range(1000):  # What was handed in before the defect was hit may still be answered.
                await asyncio.wait_for(log.enqueue(note, "x"), 10)
    recwarn.clear()
