"""A processor that raises, an exporter that fails or takes its time: the run goes on, and its outcome was recorded first."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from effectlog import EffectLog, durable_task, effect, telemetry
from effectlog.telemetry import guard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span

here: dict[str, Any] = {}


@effect(key="one")
def one() -> int:
    return 1


@effect(key="two")
async def two() -> int:
    return 2


@durable_task(name="harm.both")
async def both() -> int:
    return one() + await two()


class Raising(SpanProcessor):
    def __init__(self, where: str) -> None:
        self.where = where

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if self.where == "start":
            raise RuntimeError("no span today")

    def on_end(self, span: ReadableSpan) -> None:
        if self.where == "end":
            raise RuntimeError("no span today")


class Failing(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise ConnectionError("no collector")


class Slow(SpanExporter):
    """Blocks whoever ends the span of a request, and asks the store meanwhile what it knows."""

    def __init__(self) -> None:
        self.known: list[str] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if spans[0].name.startswith("effect"):
            deadline = time.monotonic() + 5
            while not (state := here["state"]()) and time.monotonic() < deadline:
                time.sleep(0.01)
            self.known.append(state)
        return SpanExportResult.SUCCESS


@pytest.fixture(autouse=True)
def reset() -> Iterator[None]:
    yield
    telemetry.configure()


async def result_with(store: str, processor: SpanProcessor) -> int:
    provider = TracerProvider()
    provider.add_span_processor(processor)
    telemetry.configure(tracer_provider=provider)
    async with EffectLog(store) as log:
        run = await log.enqueue(both)
        async with log.worker():
            return await asyncio.wait_for(run.result(), 20)


@pytest.mark.parametrize("where", ["start", "end"])
async def test_a_processor_that_raises(
    store: str, where: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "_told", set())
    assert await result_with(store, Raising(where)) == 3
    told = [r for r in caplog.records if "telemetry failed" in r.getMessage()]
    assert told
    assert len({r.getMessage() for r in told}) == len(told)
    assert all(r.levelno == logging.WARNING for r in told)


async def test_an_exporter_that_fails(store: str) -> None:
    assert await result_with(store, SimpleSpanProcessor(Failing())) == 3


async def test_an_outcome_is_stored_while_an_exporter_keeps_the_thread(store: str) -> None:
    reader = sync_reader(store)
    here["state"] = reader
    exporter = Slow()
    assert await result_with(store, SimpleSpanProcessor(exporter)) == 3
    assert exporter.known == ["completed", "completed"]


def sync_reader(store: str) -> Any:
    """Reads, as another process would, whether the newest effect is completed."""
    import sqlite3

    seen: set[str] = set()

    def state() -> str:
        with closing(sqlite3.connect(store)) as connection, connection:
            rows = connection.execute("SELECT effect_key, state FROM effectlog_effects").fetchall()
        done = {key for key, state in rows if state == "completed"} - seen
        seen.update(done)
        return "completed" if done else ""

    return state
