"""Users who instrument their database driver see its calls as they are: never inside a run's spans."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from effectlog import EffectLog, durable_task, effect
from effectlog.store.sqlite import store as sqlite

if TYPE_CHECKING:
    import pytest
    from support.telemetry_seen import Seen


@effect(key="out")
async def out() -> int:
    return 1


@durable_task(name="instrumented")
async def instrumented() -> int:
    return await out()


async def test_transactions_of_the_engine_are_roots_of_their_own(
    store: str, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = sqlite.apply_batch

    def traced(*how: Any) -> Any:
        with seen.tracer.start_as_current_span("COMMIT"):
            return apply(*how)

    monkeypatch.setattr(sqlite, "apply_batch", traced)
    async with EffectLog(store) as log, log.worker():
        with seen.tracer.start_as_current_span("request"):
            run = await log.enqueue(instrumented)
        await asyncio.wait_for(run.result(), 20)

    commits = seen.named("COMMIT")
    assert len(commits) > 3
    assert {seen.parent_of(span) for span in commits} == {None}
    assert seen.parent_of(seen.one("attempt instrumented")) == "enqueue instrumented"
    assert all(seen.parent_of(span) != "COMMIT" for span in seen.spans)
