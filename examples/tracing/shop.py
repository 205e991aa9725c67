"""The tasks: an order is charged, a receipt is mailed, and the parcel service is told by a run of its own."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from opentelemetry import trace

from effectlog import durable_task, effect, operation_id

tracer = trace.get_tracer("shop")
log: Any = None
"""The log of this process, for the run that a task enqueues."""


def ask(service: str, order: str) -> None:
    """A call to a service outside: it takes a while, and accepts each idempotency key once."""
    with tracer.start_as_current_span(f"POST {service}", kind=trace.SpanKind.CLIENT):
        time.sleep(0.08)
        with Path(os.environ["SERVICES"]).open("a", encoding="utf-8") as accepted:
            accepted.write(f"{service} {order} {operation_id()}\n")


@effect(key="charge:{order}")
def charge(order: str, cents: int) -> str:
    ask("payments", order)
    return f"paid {cents} for {order}"


@effect(key="receipt:{order}")
def mail_receipt(order: str) -> None:
    ask("mail", order)
    if os.environ.get("DIES"):
        time.sleep(0.3)  # Time for the exporter to send what has ended so far.
        os.kill(os.getpid(), signal.SIGKILL)


@effect(key="parcel:{order}")
def order_parcel(order: str) -> None:
    ask("parcels", order)


@durable_task
async def ship(order: str) -> None:
    order_parcel(order)


@durable_task
async def fulfil(order: str, cents: int) -> str:
    with tracer.start_as_current_span("payment"):
        paid = charge(order, cents)
    mail_receipt(order)
    await log.enqueue(ship.with_options(idempotency_key=f"ship:{order}"), order)
    return paid
