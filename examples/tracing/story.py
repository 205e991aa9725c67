"""The story that is traced: an order, a worker killed in the middle of an effect, another that goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import shop
from collector import Collector, Spans
from opentelemetry import trace
from sdk import set_up

from effectlog import EffectLog, Run

HERE = Path(__file__).parent


def start_worker(
    name: str, store: str, collector: str, services: Path, *, dies: bool
) -> subprocess.Popen[str]:
    """Start a worker that waits for its cue."""
    env = os.environ | {"SERVICES": str(services)} | ({"DIES": "1"} if dies else {})
    process = subprocess.Popen(
        [sys.executable, str(HERE / "worker.py"), name, store, collector],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    print(process.stdout.readline(), end="")
    return process


def cue(process: subprocess.Popen[str]) -> None:
    """Let a worker work."""
    assert process.stdin is not None
    process.stdin.write("work\n")
    process.stdin.flush()


def finish(process: subprocess.Popen[str]) -> None:
    """Let a worker drain, unless it is dead already, and show what it printed."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    print(process.communicate()[0], end="")


async def order(log: EffectLog, name: str) -> Run[str]:
    """What a web server does with a request: the trace begins here."""
    with trace.get_tracer("shop").start_as_current_span("POST /orders", kind=trace.SpanKind.SERVER):
        return await log.enqueue(shop.fulfil.with_options(idempotency_key=f"order:{name}"), name, 1999)


async def play(folder: Path, collector: str) -> None:
    provider = set_up("shop", collector)
    store, services = str(folder / "orders.db"), folder / "accepted.txt"
    async with EffectLog(store) as log:
        first = start_worker("worker A", store, collector, services, dies=True)
        second = start_worker("worker B", store, collector, services, dies=False)
        cue(first)
        run = await order(log, "A-42")
        await asyncio.to_thread(first.wait)
        print(f"worker A was killed (exit status {first.returncode})")
        cue(second)
        print("result:", await run.result(timeout=30))
        (child,) = await log.list_runs(task=shop.ship)
        await (await log.get_run(child.id)).result(timeout=30)
    finish(first)
    finish(second)
    provider.shutdown()
    print(services.read_text(encoding="utf-8"), end="")


def trace_once() -> Spans:
    """Run it all and return the spans that were collected."""
    with Collector() as collector, tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(Path(folder), collector.url))
        return collector.spans
