"""Only OpenTelemetry's API is used: no provider is set, no handler installed, and without either all still works (F184)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

RUN = """
import asyncio, sys
from effectlog import EffectLog, durable_task, effect

@effect(key="e")
def outside(): return 1

@durable_task
def task(): return outside()

async def main():
    async with EffectLog(sys.argv[1]) as log, log.worker():
        print("result", await (await log.enqueue(task)).result())
asyncio.run(main())
"""
WITHOUT_SDK = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "opentelemetry.sdk" or name.startswith("opentelemetry.sdk."):
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
"""
PROVIDER = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
"""
SPANS = """
assert trace.get_tracer_provider() is provider
print(sorted(span.name.split()[0] for span in exporter.get_finished_spans()))
"""
UNTOUCHED = """
import logging, sys
from opentelemetry import metrics, trace
assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider), trace.get_tracer_provider()
assert "Proxy" in type(metrics.get_meter_provider()).__name__
assert logging.getLogger("effectlog").handlers == logging.getLogger().handlers == []
assert not [name for name in sys.modules if name.startswith("opentelemetry.sdk")]
"""


def run(script: str, store: str, **env: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OTEL_")}
    ended = subprocess.run(
        [sys.executable, "-c", script, store],
        env={**environment, **env},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout


def test_nothing_is_set_up_and_nothing_of_the_sdk_is_needed(store: str) -> None:
    assert run(WITHOUT_SDK + RUN + UNTOUCHED, store) == "result 1\n"


def test_the_api_is_not_even_imported_where_nobody_uses_it(store: str) -> None:
    script = RUN + "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    assert run(script, store) == "result 1\n[]\n"


ALL = "['attempt', 'effect', 'enqueue']\n"


@pytest.mark.parametrize(
    "script", [PROVIDER + RUN, "import effectlog\n" + PROVIDER + RUN], ids=["before", "after"]
)
def test_a_global_provider_is_found_and_stays(script: str, store: str) -> None:
    assert run(script + SPANS, store) == "result 1\n" + ALL


def test_a_provider_set_while_a_log_is_open_is_found(store: str) -> None:
    late = RUN.replace("        print(", f"        exec({PROVIDER!r}, globals())\n        print(")
    assert run(late + SPANS, store) == "result 1\n" + ALL


def test_a_disabled_sdk_records_nothing(store: str) -> None:
    assert run(PROVIDER + RUN + SPANS, store, OTEL_SDK_DISABLED="true") == "result 1\n[]\n"


def test_a_provider_named_by_the_environment_is_loaded(store: str) -> None:
    loaded = "print('opentelemetry.sdk.trace' in sys.modules)"
    assert run(RUN + loaded, store, OTEL_PYTHON_TRACER_PROVIDER="sdk_tracer_provider") == "result 1\nTrue\n"
