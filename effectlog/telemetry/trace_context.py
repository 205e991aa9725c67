"""A span's context as text, stored with a run or an attempt, and back.

In W3C's form, whatever propagator is set.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from effectlog.telemetry.settings import settings

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

_span = TraceContextTextMapPropagator()
_baggage = W3CBaggagePropagator()
_PARENT = "parent"


def pack(context: Context, parent: str | None = None) -> str | None:
    """The context's span, and its baggage if that was asked for; None where there is no valid span.

    ``parent``: the packed context of the attempt inside which this one was made.
    """
    carried: dict[str, str] = {}
    _span.inject(carried, context)
    if not carried:
        return None
    if settings.baggage:
        _baggage.inject(carried, context)
    if parent is not None and (above := _decoded(parent).get("traceparent")):
        carried[_PARENT] = above
    return json.dumps(carried)


def unpack(text: str | None) -> Context:
    """The stored context, with a remote span; an empty one where nothing, or nothing readable, was stored."""
    carried = _decoded(text)
    context = _span.extract(carried, Context())
    return _baggage.extract(carried, context) if settings.baggage else context


def span_of(text: str | None) -> SpanContext | None:
    """The stored span."""
    return _valid(_decoded(text))


def parent_of(text: str | None) -> SpanContext | None:
    """The stored span of the attempt inside which the run was made."""
    carried = _decoded(text)
    return _valid({"traceparent": carried[_PARENT]}) if _PARENT in carried else None


def _valid(carried: dict[str, str]) -> SpanContext | None:
    context = trace.get_current_span(_span.extract(carried, Context())).get_span_context()
    return context if context.is_valid else None


def _decoded(text: str | None) -> dict[str, str]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return {k: v for k, v in found.items() if isinstance(v, str)} if isinstance(found, dict) else {}
