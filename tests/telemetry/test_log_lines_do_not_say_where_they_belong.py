"""Log lines name run, task, attempt and effect, and are written where the SDK finds the trace."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from opentelemetry import trace

from effectlog import EffectLog, Retry, durable_task, effect
from effectlog.store import commands as c

if TYPE_CHECKING:
    import pytest
    from support.telemetry_seen import Seen

here: dict[str, Any] = {}


@effect(key="post")
def post() -> None:
    if here.pop("breaks", False):
        raise ConnectionError("no answer")


@durable_task(name="logged.posting", retry=Retry(delay=0.01))
def posting() -> None:
    post()


class Tracing(logging.Handler):
    """Notes the span that is current when a line is written, as the SDK's logging integration does."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[logging.LogRecord, int]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record, trace.get_current_span().get_span_context().span_id))


def fields(record: logging.LogRecord) -> list[Any]:
    return [getattr(record, name, None) for name in ("run_id", "task", "attempt", "effect_key")]


async def test_a_resend_warns_and_a_takeover_is_one_line(
    store: str, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "effectlog")
    handler = Tracing()
    logging.getLogger("effectlog").addHandler(handler)
    here["breaks"] = True
    try:
        async with EffectLog(store, lease=1.0) as log:
            run = await log.enqueue(posting)
            limits = (c.TaskLimit(("logged.posting",)),)
            await log._engine.commit(c.Claim("ghost", "ghost", 0.05, limits, 1, run_id=run.id))
            async with log.worker(), log.worker():
                await asyncio.wait_for(run.result(), 20)
    finally:
        logging.getLogger("effectlog").removeHandler(handler)

    takeover, resend = [line for line in handler.lines if line[0].levelno >= logging.INFO]
    assert (takeover[0].levelno, fields(takeover[0])) == (logging.INFO, [run.id, "logged.posting", 1, None])
    assert (resend[0].levelno, fields(resend[0])) == (logging.WARNING, [run.id, "logged.posting", 3, "post"])
    last = seen.named("attempt logged.posting")[-1]
    assert resend[1] == last.context.span_id


async def test_a_line_written_after_the_body_belongs_to_the_attempt(store: str, seen: Seen) -> None:
    handler = Tracing()
    logging.getLogger("effectlog").addHandler(handler)
    begun, go_on = asyncio.Event(), asyncio.Event()

    @durable_task(name="logged.losing")
    async def losing() -> None:
        begun.set()
        await go_on.wait()

    try:
        async with EffectLog(store) as log, log.worker():
            run = await log.enqueue(losing)
            await asyncio.wait_for(begun.wait(), 20)
            await run.cancel(force=True)
            go_on.set()
    finally:
        logging.getLogger("effectlog").removeHandler(handler)

    ((line, span_id),) = [(r, s) for r, s in handler.lines if r.levelno >= logging.WARNING]
    attempt = seen.one("attempt logged.losing")
    assert fields(line) == [run.id, "logged.losing", 1, None]
    assert span_id == attempt.context.span_id
    assert (attempt.attributes or {})["effectlog.outcome"] == "lost"
    assert attempt.status.status_code.name == "ERROR"


def test_a_library_installs_no_handler() -> None:
    script = "import logging, effectlog, effectlog.telemetry; print(logging.getLogger('effectlog').handlers)"
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"
