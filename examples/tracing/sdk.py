"""What any application does to see its traces: one provider, a batching OTLP exporter, and the console beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

if TYPE_CHECKING:
    from collections.abc import Callable


def set_up(service: str, collector: str) -> TracerProvider:
    """Send this process's spans to the collector's address and print a line of each."""
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    exporter = OTLPSpanExporter(endpoint=f"{collector}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=50))
    console = ConsoleSpanExporter(formatter=_line(service))
    provider.add_span_processor(BatchSpanProcessor(console, schedule_delay_millis=50))
    trace.set_tracer_provider(provider)
    return provider


def _line(service: str) -> Callable[[ReadableSpan], str]:
    def line(span: ReadableSpan) -> str:
        took = ((span.end_time or 0) - (span.start_time or 0)) / 1e6
        outcome = (span.attributes or {}).get("effectlog.outcome", "")
        events = " ".join(f"[{event.name}]" for event in span.events)
        return f"{service:<9}{span.name:<26}{took:7.1f} ms  {outcome} {events}\n"

    return line
