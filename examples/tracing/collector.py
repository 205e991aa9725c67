"""A stand-in for a collector: takes OTLP over HTTP and keeps what it gets."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue

Spans = list[dict[str, Any]]


class Collector:
    """Listens on a free port of this machine while it is entered; ``spans`` grows as they come."""

    def __init__(self) -> None:
        self.spans: Spans = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.spans))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Collector:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(spans: Spans) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            spans.extend(read(body))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    return Handler


def read(body: bytes) -> Spans:
    """The spans of one export request, as plain values."""
    request = ExportTraceServiceRequest.FromString(body)
    return [
        _span(span, _attributes(resource.resource.attributes)["service.name"])
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _span(span: Span, service: str) -> dict[str, Any]:
    return {
        "service": service,
        "name": span.name,
        "kind": Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        "trace": span.trace_id.hex(),
        "id": span.span_id.hex(),
        "parent": span.parent_span_id.hex() or None,
        "start": span.start_time_unix_nano / 1e9,
        "end": span.end_time_unix_nano / 1e9,
        "status": Status.StatusCode.Name(span.status.code).removeprefix("STATUS_CODE_"),
        "attributes": _attributes(span.attributes),
        "events": [
            {"name": e.name, "time": e.time_unix_nano / 1e9, "attributes": _attributes(e.attributes)}
            for e in span.events
        ],
        "links": [
            {
                "trace": link.trace_id.hex(),
                "id": link.span_id.hex(),
                "attributes": _attributes(link.attributes),
            }
            for link in span.links
        ],
    }


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return None if kind is None else getattr(value, kind)
