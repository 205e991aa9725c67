"""Spans of those who make runs, and of those who decide what is in doubt."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.trace import SpanKind

from effectlog.error_info import describe
from effectlog.errors import EffectLogControl
from effectlog.telemetry import attributes, spans, trace_context
from effectlog.telemetry.guard import harmless
from effectlog.telemetry.observer import Producer
from effectlog.telemetry.settings import tracer_provider

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opentelemetry.trace import Span

    from effectlog.context import RunningAttempt
    from effectlog.store.rows import EffectRow, StoredRun


def producer(operation: str, name: str, store: str, attempt: RunningAttempt | None) -> Producer | None:
    """A span for an enqueue or emit.

    Without a tracer, one that carries on the caller's own context, if any.
    """
    if tracer_provider() is None:
        carried = trace_context.pack(otel.get_current())
        return None if carried is None else Producer(carried)
    found = attributes.message(operation, "send", name, store)
    found["effectlog.event" if operation == "emit" else "effectlog.task"] = name
    if attempt is not None:
        found["effectlog.parent.run.id"] = attempt.run_id
    span = spans.tracer().start_span(f"{operation} {name}", kind=SpanKind.PRODUCER, attributes=found)
    parent = None if attempt is None else attempt.trace
    return _Producing(span, trace_context.pack(trace.set_span_in_context(span), parent))


class _Producing(Producer):
    """An enqueue or emit with a span of its own."""

    __slots__ = ("_span",)

    def __init__(self, span: Span, trace: str | None) -> None:
        super().__init__(trace)
        self._span = span

    @harmless(None)
    def made(self, run_ids: Sequence[str], *, created: bool) -> None:
        if len(run_ids) == 1:
            self._span.set_attribute("messaging.message.id", run_ids[0])
            self._span.set_attribute("effectlog.run.id", run_ids[0])
        else:
            self._span.set_attribute("messaging.batch.message_count", len(run_ids))
        self._span.set_attribute("effectlog.run.created", created)

    def __exit__(self, *exception: object) -> None:
        _, error, _ = exception
        self._end(error)

    @harmless(None)
    def _end(self, error: object) -> None:
        _end(self._span, error)


@contextlib.contextmanager
def resolution(run: StoredRun, effect: EffectRow) -> Iterator[None]:
    """A span for a decision, with links to the run that it settles."""
    span = _resolution_span(run, effect)
    error: BaseException | None = None
    try:
        yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        if span is not None:
            _finish(span, error)


@harmless(None)
def _resolution_span(run: StoredRun, effect: EffectRow) -> Span | None:
    found = attributes.of_effect(effect) | {"effectlog.run.id": run.row.id, "effectlog.task": run.row.task}
    links = spans.links_of(run, run.attempts)
    return spans.tracer().start_span(f"resolve {effect.name}", attributes=found, links=links)


@harmless(None)
def _finish(span: Span, error: BaseException | None) -> None:
    _end(span, error)


def _end(span: Span, error: object) -> None:
    """End a span; a cancellation or a control signal is no error of what it stands for."""
    if isinstance(error, Exception) and not isinstance(error, EffectLogControl | asyncio.CancelledError):
        info = describe(error)
        spans.describe(span, info)
        spans.fail(span, info.type, info.message)
    span.end()
