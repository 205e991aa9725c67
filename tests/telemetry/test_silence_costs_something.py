"""Where nobody listens, what an effect does for telemetry takes under two microseconds, and an attempt asks once."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from opentelemetry import trace

from effectlog import EffectLog, durable_task, effect, telemetry

if TYPE_CHECKING:
    import pytest

N = 20_000


def seconds_for(action: Any) -> float:
    """The fastest of several rounds: this machine has other things to do as well."""
    best = float("inf")
    for _ in range(7):
        began = time.process_time()
        for _ in range(N):
            action()
        best = min(best, time.process_time() - began)
    return best / N


def test_an_effect_costs_under_two_microseconds() -> None:
    attempt: Any = SimpleNamespace(observer=telemetry.SILENT)
    call: Any = None

    def one_effect() -> None:
        with attempt.observer.request(call, call):
            pass
        attempt.observer.outcome(call)

    assert seconds_for(one_effect) < 2e-6


def test_an_attempt_asks_once(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    found = trace.get_tracer_provider
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: asked.append(1) or found())

    @effect(key="{n}")
    async def nothing(n: int) -> None:
        pass

    @durable_task
    async def many() -> None:
        assert asked
        asked.clear()
        for n in range(50):
            await nothing(n)
        assert asked == []

    async def main() -> None:
        async with EffectLog(store) as log:
            await log.run(many)

    asyncio.run(main())
    assert asked == []
