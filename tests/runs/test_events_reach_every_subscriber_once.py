"""Events: one run for each subscribed task, in one transaction, whoever emits and however tasks are renamed."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from effectlog import (
    ConfigurationError,
    EffectLog,
    EncodingError,
    IdempotencyConflict,
    NoSubscriber,
    durable_task,
)
from effectlog.store import commands as c

if TYPE_CHECKING:
    from support.worker_processes import Field


@durable_task(name="invoice", on="scheduler.order.placed")
async def invoice(order: dict[str, Any]) -> str:
    return f"invoice {order['id']}"


@durable_task(
    name="ship", on=["scheduler.order.placed", "order.changed"], concurrency_key="{order[customer]}"
)
def ship(order: dict[str, Any], express: bool = False) -> str:
    return f"ship {order['id']}"


ORDER = {"id": 1, "customer": "x"}


async def test_each_subscriber_gets_one_run_in_one_transaction(log: EffectLog) -> None:
    before = log.administration.engine.commits
    runs = await log.emit("scheduler.order.placed", ORDER, correlation_id="corr")
    assert log.administration.engine.commits == before + 1
    records = [await run.record() for run in runs]
    assert [(record.task, record.correlation_id) for record in records] == [
        ("invoice", "corr"),
        ("ship", "corr"),
    ]
    async with log.worker():
        assert await asyncio.gather(*(run.result(10) for run in runs)) == ["invoice 1", "ship 1"]


async def test_one_key_makes_one_set_of_runs_however_many_emit_it(field: Field, log: EffectLog) -> None:
    async with EffectLog(field.db) as other:
        emits = (
            (log if n % 2 else other).emit("scheduler.order.placed", ORDER, idempotency_key="k")
            for n in range(20)
        )
        sets = await asyncio.gather(*emits)
    assert len({tuple(run.id for run in runs) for runs in sets}) == 1
    assert sum(runs[0].created for runs in sets) == 1
    assert len(await log.list_runs()) == 2
    with pytest.raises(IdempotencyConflict, match="another payload"):
        await log.emit("scheduler.order.placed", ORDER | {"id": 2}, idempotency_key="k")
    # Its scope is the event: the same key of another event is another set.
    (other_event,) = await log.emit("order.changed", ORDER, idempotency_key="k")
    assert other_event.created


async def test_an_event_that_nobody_subscribed_to_records_nothing(log: EffectLog) -> None:
    with pytest.raises(NoSubscriber, match=r"order\.lost") as caught:
        await log.emit("order.lost", ORDER)
    assert caught.value.event == "order.lost"
    assert await log.list_runs() == []


async def test_a_payload_that_is_too_big_is_refused(field: Field) -> None:
    async with EffectLog(field.db, max_value_bytes=1000) as log:
        with pytest.raises(EncodingError, match=r"order\.placed"):
            await log.emit("scheduler.order.placed", ORDER | {"note": "x" * 1000})


async def test_whoever_emits_need_not_know_the_tasks(field: Field, log: EffectLog) -> None:
    stranger = c.Subscription("scheduler.order.placed", "elsewhere.task", "order", "{order[customer]}")
    await log.administration.engine.commit(c.Subscribe(("elsewhere.task",), (stranger,)))
    runs = await log.emit("scheduler.order.placed", ORDER)
    tasks = [(await run.record()).task for run in runs]
    assert tasks == ["elsewhere.task", "invoice", "ship"]
    assert dict((await runs[0].record()).args) == {"order": ORDER}
    with closing(sqlite3.connect(field.db)) as db:
        rows = db.execute("SELECT task, concurrency_key FROM effectlog_runs ORDER BY task").fetchall()
    assert rows == [("elsewhere.task", "x"), ("invoice", None), ("ship", "x")]


async def test_a_renamed_task_is_not_run_under_both_names(field: Field, log: EffectLog) -> None:
    old = c.Subscription("order.renamed", "handler before", "order")
    await log.administration.engine.commit(c.Subscribe(("handler before",), (old,)))

    @durable_task(name="handler after", aliases=["handler before"], on="order.renamed")
    async def handler(order: dict[str, Any]) -> str:
        return "handled"

    async with EffectLog(field.db) as renamed:
        (run,) = await renamed.emit("order.renamed", ORDER)
        assert (await run.record()).task == "handler after"


async def test_code_of_before_a_rename_that_opens_later_gets_no_run_of_its_own(
    field: Field, log: EffectLog
) -> None:
    """As in a rolling deploy: what is of the old release may start again after the new one has."""

    @durable_task(name="bill", aliases=["handler of old"], on="order.billed")
    async def bill(order: dict[str, Any]) -> str:
        return "billed"

    async with EffectLog(field.db) as new:
        for task in ("handler of old", "ledger"):
            stored = c.Subscription("order.billed", task, "order")
            await log.administration.engine.commit(c.Subscribe((task,), (stored,)))
        runs = await new.emit("order.billed", ORDER, idempotency_key="k")
        assert [(await run.record()).task for run in runs] == ["bill", "ledger"]
        assert [run.id for run in await log.emit("order.billed", ORDER, idempotency_key="k")] == [
            run.id for run in runs
        ]


async def test_two_tasks_that_claim_each_others_name_lose_no_event(log: EffectLog) -> None:
    for task, alias in (("left", "right"), ("right", "left")):
        claims = c.Subscription("order.claimed", task, "order", aliases=(alias,))
        await log.administration.engine.commit(c.Subscribe((task,), (claims,)))
    assert len(await log.emit("order.claimed", ORDER)) == 2


async def test_a_task_that_no_longer_subscribes_gets_no_more_runs(field: Field, log: EffectLog) -> None:
    subscribed = c.Subscription("order.forgotten", "handler without events", "order")
    await log.administration.engine.commit(c.Subscribe(("handler without events",), (subscribed,)))
    assert len(await log.emit("order.forgotten", ORDER)) == 1

    @durable_task(name="handler without events")
    async def handler(order: dict[str, Any]) -> None: ...

    async with EffectLog(field.db) as later:
        with pytest.raises(NoSubscriber):
            await later.emit("order.forgotten", ORDER)


def test_what_an_emitter_could_not_know_is_refused_at_declaration() -> None:
    with pytest.raises(ConfigurationError, match="one required parameter"):

        @durable_task(on="x")
        async def two(a: int, b: int) -> None: ...

    with pytest.raises(ConfigurationError, match="concurrency_key"):

        @durable_task(on="x", concurrency_key=lambda order: f"{order}")
        async def callable_key(order: int) -> None: ...

    with pytest.raises(ConfigurationError, match="concurrency_key"):

        @durable_task(on="x", concurrency_key="{region}")
        async def other_field(order: int, region: str = "eu") -> None: ...


@durable_task(name="taking.more", on="scheduler.variadic")
def taking_more(order: dict[str, Any], *more: Any, **options: Any) -> tuple[Any, ...]:
    return order["id"], more, options


async def test_a_subscriber_may_take_more_than_the_payload(log: EffectLog) -> None:
    (run,) = await log.emit("scheduler.variadic", ORDER)
    async with log.worker():
        assert await run.result(timeout=20) == (1, (), {})
    for no_taker in (lambda *orders: orders, lambda **orders: orders, lambda one, two: (one, two)):
        with pytest.raises(ConfigurationError, match="its one required parameter"):
            durable_task(name="taking.none", on="scheduler.variadic")(no_taker)
