"""What an SDK in this process got to see, in the shape that tests ask about."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Seen:
    """An SDK of its own, with everything kept in memory."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracer_provider = TracerProvider()
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meter_provider = MeterProvider([self._reader])
        self.tracer = self.tracer_provider.get_tracer("user")

    @property
    def spans(self) -> list[ReadableSpan]:
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span

    def name_of(self, span_id: int | None) -> str | None:
        found = [span.name for span in self.spans if span.context.span_id == span_id]
        return found[0] if found else None

    def parent_of(self, span: ReadableSpan) -> str | None:
        return None if span.parent is None else self.name_of(span.parent.span_id) or "?"

    def tree(self) -> list[str]:
        """A line a span, indented below its parent, in order of start; kind and a failed status beside it."""
        known = {span.context.span_id for span in self.spans}
        lines: list[str] = []

        def add(parent: int | None, depth: int) -> None:
            for span in self.spans:
                above = span.parent.span_id if span.parent and span.parent.span_id in known else None
                if above == parent:
                    status = " ERROR" if span.status.status_code.name == "ERROR" else ""
                    lines.append(f"{'  ' * depth}{span.name} {span.kind.name}{status}")
                    add(span.context.span_id, depth + 1)

        add(None, 0)
        return lines

    def links(self, span: ReadableSpan) -> list[tuple[str, str | None]]:
        """(kind of link, name of the linked span)"""
        return [
            (str((link.attributes or {})["effectlog.link"]), self.name_of(link.context.span_id))
            for link in span.links
        ]

    def metrics(self) -> dict[str, dict[str, Any]]:
        """By name: unit, kind of data and points, each a pair of attributes and value (a count for histograms)."""
        data = self._reader.get_metrics_data()
        found: dict[str, dict[str, Any]] = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points = [
                        (dict(p.attributes or {}), p.value if hasattr(p, "value") else p.count)
                        for p in metric.data.data_points
                    ]
                    kind = type(metric.data).__name__
                    found[metric.name] = {"unit": metric.unit, "kind": kind, "points": points}
        return found

    def total(self, name: str, **attributes: str) -> float:
        wanted = {f"effectlog.{key}": value for key, value in attributes.items()}
        points = self.metrics().get(name, {"points": []})["points"]
        return sum(value for found, value in points if wanted.items() <= found.items())


def events(span: ReadableSpan) -> list[str]:
    return [event.name for event in span.events]


def attributes(span: ReadableSpan, *names: str) -> list[Any]:
    return [(span.attributes or {}).get(f"effectlog.{name}") for name in names]
