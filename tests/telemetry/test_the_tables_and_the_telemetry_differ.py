"""The documented tables are what is emitted: names, instruments, units and attributes of metrics, attributes of spans."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from effectlog import (
    Applied,
    Destination,
    EffectLog,
    NotApplied,
    Retry,
    RunFailed,
    RunHeld,
    durable_task,
    effect,
    telemetry,
)
from effectlog.store import commands as c

if TYPE_CHECKING:
    from support.telemetry_seen import Seen

here: dict[str, Any] = {}


BANK = Destination("bank", key_field="key", retention=timedelta(days=1), settle=timedelta(0))


@effect(key="pay", destination=BANK)
def pay() -> int:
    if here.pop("breaks", False):
        raise ConnectionError("no answer")
    return 1


@effect(key="mail", in_doubt="hold")
def mail() -> int:
    raise TimeoutError("no answer")


@effect(key="ping")
async def ping() -> None:
    here["begun"].set()
    if here.pop("waits", False):
        await here["go on"].wait()


@effect(key="asked", in_doubt=NotApplied)
def asked() -> None:
    if here.pop("fails", False):
        raise TimeoutError("no answer")


@durable_task(name="counted.paying", retry=Retry(max_attempts=2, delay=0.01), on="counted.paid")
async def paying(order: str = "") -> None:
    pay()
    await ping()
    raise LookupError(order)


@durable_task(name="counted.mailing")
def mailing() -> None:
    mail()


@durable_task(name="counted.pinging")
async def pinging() -> None:
    await ping()


@durable_task(name="counted.asking", retry=Retry(delay=0.01))
async def asking() -> None:
    asked()
    await here["log"].enqueue(pinging.with_options(idempotency_key="p"))


def table(title: str) -> dict[str, list[str]]:
    """The rows of the documentation's table below a title: the first column's name, and the others' text."""
    text = (telemetry.__doc__ or "").split(title, 1)[1]
    rules = list(re.finditer(r"^=+( +=+)+$", text, re.MULTILINE))[:3]
    columns = [m.span() for m in re.finditer("=+", rules[0][0])]
    rows = text[rules[1].end() : rules[2].start()].strip("\n").splitlines()
    return {
        row[slice(*columns[0])].strip(" `"): [
            row[start : None if last else end].strip() for start, end, last in ends(columns)
        ]
        for row in rows
        if row.startswith("``")
    }


def ends(columns: list[tuple[int, int]]) -> list[tuple[int, int, bool]]:
    return [(start, end, at == len(columns) - 1) for at, (start, end) in enumerate(columns)][1:]


async def everything(store: str, seen: Seen) -> None:
    """Let happen whatever is counted."""
    here.clear()
    here.update(begun=asyncio.Event(), breaks=True)
    async with EffectLog(store, lease=1.0) as log:
        here["log"] = log
        # Somebody claims a run and is never seen again.
        left = await log.enqueue(pinging)
        limits = (c.TaskLimit(("counted.pinging",)),)
        await log._engine.commit(c.Claim("ghost", "ghost", 0.05, limits, 1, run_id=left.id))
        async with log.worker():
            await asyncio.wait_for(left.result(), 20)
            (failed,) = await log.emit("counted.paid", "order", correlation_id="7")
            with pytest.raises(RunFailed):
                await asyncio.wait_for(failed.result(), 20)
            held = await log.enqueue(mailing)
            with pytest.raises(RunHeld):
                await asyncio.wait_for(held.result(), 20)
            await log.resolve(held.id, "mail", Applied(1), by="test")
            await asyncio.wait_for(held.result(), 20)
            here["fails"] = True
            await asyncio.wait_for((await log.enqueue(asking)).result(), 20)
        await lose_and_release(log)
    here.clear()


async def lose_and_release(log: EffectLog) -> None:
    here["go on"] = asyncio.Event()
    here.update(waits=True, begun=asyncio.Event())
    worker = log.worker()
    await worker.__aenter__()
    lost = await log.enqueue(pinging)
    await asyncio.wait_for(here["begun"].wait(), 20)
    await lost.cancel(force=True)
    here["go on"].set()
    here["go on"] = asyncio.Event()
    here.update(waits=True, begun=asyncio.Event())
    released = await log.enqueue(pinging)
    await asyncio.wait_for(here["begun"].wait(), 20)
    await worker.release()
    async with log.worker():
        await asyncio.wait_for(released.result(), 20)


KINDS = {"Sum": "counter", "Histogram": "histogram", "Gauge": "gauge"}


async def test_every_documented_metric_is_emitted_and_no_other(store: str, seen: Seen) -> None:
    await everything(store, seen)
    found = seen.metrics()

    emitted = {
        name: (
            KINDS[metric["kind"]],
            metric["unit"],
            {
                key.removeprefix("effectlog.").removeprefix("run.")
                for attributes, _ in metric["points"]
                for key in attributes
            },
        )
        for name, metric in found.items()
    }
    gauges = {name: row for name, row in table("Metrics\n-----").items() if row[0] == "gauge"}
    documented = {
        name: (row[0], row[1], set(row[2].split(", ")))
        for name, row in table("Metrics\n-----").items()
        if name not in gauges
    }
    assert emitted == documented
    for name, value in {
        "attempts": 11,
        "holds": 1,
        "dead_letters": 1,
        "lease.losses": 1,
        "takeovers": 2,
        "resends": 2,
        "requests": 11,
    }.items():
        assert seen.total(f"effectlog.{name}") == value, name
    assert seen.total("effectlog.takeovers", reason="expired") == 1
    assert seen.total("effectlog.takeovers", reason="released") == 1
    assert seen.total("effectlog.attempts", outcome="expired") == 1


async def test_gauges_tell_of_the_whole_store_while_it_is_open(store: str, seen: Seen) -> None:
    async with EffectLog(store) as log:
        await log.enqueue_many(pinging, [(), ()])
        async with log.worker(tasks=[mailing]):
            held = await log.enqueue(mailing)
            with pytest.raises(RunHeld):
                await asyncio.wait_for(held.result(), 20)
        assert seen.total("effectlog.runs", **{"run.state": "pending"}) == 2
        assert seen.total("effectlog.runs", **{"run.state": "held"}) == 1
        assert seen.total("effectlog.runs", **{"run.state": "running"}) == 0
        assert 0 < seen.total("effectlog.doubt.oldest_age") < 20
        gauges = {name: row for name, row in table("Metrics\n-----").items() if row[0] == "gauge"}
        assert set(gauges) == {"effectlog.runs", "effectlog.doubt.oldest_age"}
        assert {name: seen.metrics()[name]["unit"] for name in gauges} == {n: r[1] for n, r in gauges.items()}
    assert "effectlog.runs" not in seen.metrics()


async def test_every_attribute_of_ours_is_documented_and_used(store: str, seen: Seen) -> None:
    await everything(store, seen)
    used = {
        key
        for span in seen.spans
        for holder in (span, *span.events, *span.links)
        for key in (holder.attributes or {})
        if key.startswith("effectlog.")
    }
    assert used == set(table("Attributes beside"))
