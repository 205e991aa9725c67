"""What may be personal stays at home: effect keys on demand, baggage unless asked for.

And traces apart where wanted.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import baggage, context

from effectlog import Applied, EffectLog, Retry, RunFailed, RunHeld, durable_task, effect, telemetry

if TYPE_CHECKING:
    from support.telemetry_seen import Seen

here: dict[str, Any] = {}


@effect(key="mail:{address}", in_doubt=lambda address: Applied(address))  # noqa: PLW0108 - the value is the argument
def mail(address: str) -> str:
    if here.pop("breaks", False):
        raise TimeoutError("no answer")
    return address


@durable_task(name="private.mailing", retry=Retry(delay=0.01))
def mailing(address: str) -> None:
    mail(address)
    here["baggage"] = dict(baggage.get_all())


async def finished(log: EffectLog, address: str) -> None:
    async with log.worker():
        await asyncio.wait_for((await log.enqueue(mailing, address)).result(), 20)


async def test_effect_keys_stay_out_where_they_may_be_personal(store: str, seen: Seen) -> None:
    telemetry.configure(effect_keys=False, tracer_provider=seen.tracer_provider)
    here["breaks"] = True
    async with EffectLog(store) as log:
        await finished(log, "ann@example.org")

    assert len(seen.named("attempt private.mailing")) == 2
    told = [json.loads(span.to_json()) for span in seen.spans]
    assert "ann@example.org" not in json.dumps(told)
    request = seen.one(f"effect {__name__}.mail")
    assert (request.attributes or {})["effectlog.operation_id"]


async def test_effect_keys_stay_out_of_log_lines_as_well(
    store: str, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever says them: a resend, a look-up that failed, an error's text, a field that a JSON log writes out."""

    @effect(key="mail:{address}", name="private.asked", in_doubt=broken_look_up, lookup_budget=0)
    def asked(address: str) -> None:
        del address
        raise TimeoutError("no answer")

    @effect(key="mail:{address}", name="private.other")
    def other(address: str) -> None:
        del address

    @durable_task(name="private.logging", retry=Retry(max_attempts=2, delay=0.01))
    def logging_task(address: str) -> None:
        with suppress(TimeoutError):
            asked(address)
        try:
            asked(address)
        finally:
            other(address)

    caplog.set_level("DEBUG", logger="effectlog")
    for shown in (True, False):
        caplog.clear()
        telemetry.configure(effect_keys=shown, tracer_provider=seen.tracer_provider)
        async with EffectLog(store) as log, log.worker():
            run = await log.enqueue(logging_task, f"ann.{shown}@example.org")
            with pytest.raises((RunHeld, RunFailed)):
                await asyncio.wait_for(run.result(), 20)
        written = [{**vars(record), "text": caplog.handler.format(record)} for record in caplog.records]
        assert any("look-up" in str(line) for line in written)
        assert ("ann." in json.dumps(written, default=str)) is shown
        assert all("_effect_keys" not in line for line in written)


def broken_look_up(address: str) -> None:
    raise OSError("the destination is away")


async def test_baggage_is_carried_only_if_asked_for(store: str, seen: Seen) -> None:
    carried = []
    for wanted in (False, True):
        telemetry.configure(baggage=wanted, tracer_provider=seen.tracer_provider)
        token = context.attach(baggage.set_baggage("customer", "4711"))
        try:
            async with EffectLog(store) as log:
                await finished(log, "a")
        finally:
            context.detach(token)
        carried.append(here["baggage"])

    assert carried == [{}, {"customer": "4711"}]


async def test_each_attempt_can_have_a_trace_of_its_own(store: str, seen: Seen) -> None:
    telemetry.configure(own_traces=True, tracer_provider=seen.tracer_provider)
    async with EffectLog(store) as log:
        await finished(log, "a")

    made, attempt = seen.one("enqueue private.mailing"), seen.one("attempt private.mailing")
    assert attempt.parent is None
    assert attempt.context.trace_id != made.context.trace_id
    assert seen.links(attempt) == [("enqueue", "enqueue private.mailing")]
    assert seen.parent_of(seen.one(f"effect {__name__}.mail")) == "attempt private.mailing"


async def test_a_stored_trace_that_cannot_be_read_begins_a_new_one(store: str, seen: Seen) -> None:
    import sqlite3

    async with EffectLog(store) as log:
        runs = await log.enqueue_many(mailing, [("a",), ("b",), ("c",), ("d",)])
        with closing(sqlite3.connect(store)) as connection, connection:
            for run, text in zip(
                runs, ("{", '["x"]', '{"traceparent": "00-zz"}', '{"traceparent": 7}'), strict=True
            ):
                connection.execute("UPDATE effectlog_runs SET trace = ? WHERE id = ?", (text, run.id))
        async with log.worker():
            for run in runs:
                await asyncio.wait_for(run.result(), 20)

    attempts = seen.named("attempt private.mailing")
    assert len(attempts) == 4
    assert all(span.parent is None and not span.links for span in attempts)
