"""Tracer, links and how a span says that it failed; shared by everything that makes spans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.trace import Link, Span, StatusCode

from effectlog.telemetry import trace_context
from effectlog.telemetry.settings import NAME, tracer_provider

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext, Tracer

    from effectlog.model import ErrorInfo
    from effectlog.store.rows import AttemptRow, StoredRun


def tracer() -> Tracer:
    """The tracer of the provider that is set now; one that does nothing if none is."""
    provider = tracer_provider() or trace.NoOpTracerProvider()
    return provider.get_tracer(NAME)


def links_of(run: StoredRun, attempts: list[AttemptRow]) -> list[Link]:
    """Links to what made the run, to its parent, and to these attempts of it."""
    found = [
        _link(trace_context.span_of(run.trace), "enqueue"),
        _link(trace_context.parent_of(run.trace), "parent"),
    ]
    for attempt in attempts:
        outcome = attempt.outcome.value if attempt.outcome else "running"
        more: dict[str, str | int] = {"effectlog.attempt": attempt.number, "effectlog.outcome": outcome}
        found.append(_link(trace_context.span_of(attempt.trace), "attempt", **more))
    return [link for link in found if link is not None]


def _link(context: SpanContext | None, kind: str, **more: str | int) -> Link | None:
    return None if context is None else Link(context, {"effectlog.link": kind, **more})


def describe(span: Span, error: ErrorInfo) -> None:
    """Add the exception as the event that the semantic conventions ask for."""
    span.add_event(
        "exception",
        {
            "exception.type": error.type,
            "exception.message": error.message,
            "exception.stacktrace": error.traceback,
        },
    )


def fail(span: Span, kind: str, message: str) -> None:
    """Make the span's status an error."""
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR, f"{kind}: {message}")
