"""A worker is killed with its spans: what another process does next is in the same trace and says what was lost (F179)."""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import killed_worker
from support import APPS
from support.telemetry_seen import Seen, attributes, events

from effectlog import EffectLog

if TYPE_CHECKING:
    import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "tracing"


async def killed(store: str) -> list[dict[str, Any]]:
    """Run the worker until it is dead; the spans it got out."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(APPS / "killed_worker.py"),
        store,
        env=os.environ | {"DIES": "1"},
        stdout=subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == -9
    return [json.loads(line) for line in output.splitlines()]


async def test_the_next_process_goes_on_in_the_trace_of_the_killed_one(store: str, seen: Seen) -> None:
    async with EffectLog(store) as log:
        with seen.tracer.start_as_current_span("request"):
            run = await log.enqueue(killed_worker.two)
        lost = await killed(store)
        async with log.worker(name="B"):
            assert await asyncio.wait_for(run.result(), 20) == 3
            record = await run.record()

    assert [attempt.outcome for attempt in record.attempts] == ["expired", "succeeded"]
    assert seen.tree() == [
        "request INTERNAL",
        "  enqueue killed.two PRODUCER",
        "    attempt killed.two CONSUMER",
        "      effect killed.second CLIENT",
    ]
    (exported,) = lost
    second = seen.one("attempt killed.two")
    assert exported["name"] == "effect killed.first"
    assert int(exported["context"]["trace_id"], 16) == second.context.trace_id
    enqueued, earlier = second.links
    assert enqueued.context.span_id == seen.one("enqueue killed.two").context.span_id
    assert (earlier.attributes or {}) == {
        "effectlog.link": "attempt",
        "effectlog.attempt": 1,
        "effectlog.outcome": "expired",
    }
    assert earlier.context.trace_id == second.context.trace_id
    assert seen.name_of(earlier.context.span_id) is None
    assert events(second) == ["expired", "replayed", "resent"]
    expired = second.events[0].attributes or {}
    assert expired["effectlog.attempt"] == 1
    assert "its process died" in str(expired["effectlog.reason"])
    assert attributes(seen.one("effect killed.second"), "attempt", "request", "in_doubt", "outcome") == [
        2,
        2,
        True,
        "completed",
    ]
    assert seen.total("effectlog.takeovers", reason="process dead") == 1
    assert seen.total("effectlog.attempts", outcome="expired") == 1


WANTED = [
    "POST /orders SERVER shop",
    "  enqueue shop.fulfil PRODUCER shop",
    "    attempt shop.fulfil #1 (span lost)",
    "      payment INTERNAL worker A",
    "        effect shop.charge CLIENT worker A",
    "          POST payments CLIENT worker A",
    "      effect (span lost)",
    "        POST mail CLIENT worker A",
    "    attempt shop.fulfil CONSUMER worker B",
    "      payment INTERNAL worker B",
    "      effect shop.mail_receipt CLIENT worker B",
    "        POST mail CLIENT worker B",
    "      enqueue shop.ship PRODUCER worker B",
    "        attempt shop.ship CONSUMER worker B",
    "          effect shop.order_parcel CLIENT worker B",
    "            POST parcels CLIENT worker B",
]


def test_the_example_is_one_trace_over_otlp(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path), "--spans"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "trace.svg").stat().st_size > 0
    assert (tmp_path / "trace.png").stat().st_size > 0
    spans = json.loads((tmp_path / "spans.json").read_text(encoding="utf-8"))

    monkeypatch.syspath_prepend(str(EXAMPLE))
    drawing = runpy.run_path(str(EXAMPLE / "drawing.py"))
    rows = drawing["tree"](drawing["with_lost"](spans))
    told = [
        f"{'  ' * depth}{s['name']} {s.get('kind', '')} {s['service'] if 'kind' in s else ''}"
        for depth, s in rows
    ]
    assert [line.rstrip() for line in told] == WANTED
    assert len({span["trace"] for span in spans}) == 1
    assert {span["status"] for span in spans} == {"UNSET"}
    (again,) = [span for span in spans if span["name"] == "attempt shop.fulfil"]
    (enqueued,) = [span for span in spans if span["name"] == "enqueue shop.fulfil"]
    assert [link["attributes"]["effectlog.link"] for link in again["links"]] == ["enqueue", "attempt"]
    assert again["links"][0]["id"] == enqueued["id"] == again["parent"]
    assert [event["name"] for event in again["events"]] == ["expired", "replayed", "resent"]
    child = next(span for span in spans if span["name"] == "attempt shop.ship")
    assert child["links"][1]["id"] == again["id"]
    assert "worker B attempt shop.fulfil" in ended.stdout
