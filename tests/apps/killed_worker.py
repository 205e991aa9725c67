"""A worker process that is killed inside an effect: ``python killed_worker.py STORE``.

Its spans go to standard output.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from effectlog import EffectLog, durable_task, effect


class Printer(SpanExporter):
    def export(self, spans: tuple[ReadableSpan, ...]) -> SpanExportResult:  # type: ignore[override]
        for span in spans:
            print(json.dumps(json.loads(span.to_json())), flush=True)
        return SpanExportResult.SUCCESS


@effect(key="first", name="killed.first")
def first() -> int:
    return 1


@effect(key="second", name="killed.second")
def second() -> int:
    if os.environ.get("DIES"):
        os.kill(os.getpid(), signal.SIGKILL)
    return 2


@durable_task(name="killed.two")
async def two() -> int:
    with trace.get_tracer("user").start_as_current_span("step"):
        return first() + second()


async def main(store: str) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Printer()))
    trace.set_tracer_provider(provider)
    async with EffectLog(store) as log:
        await log.worker(name="A").serve()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
