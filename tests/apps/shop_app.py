"""Tasks for the tests of the command line; loaded by real workers, and by the tests themselves."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import date
from decimal import Decimal  # noqa: TC003 - resolved at run time, as everywhere in this module
from pathlib import Path

from effectlog import Retry, durable_task, effect
from effectlog.destinations import STRIPE


@dataclass
class Line:
    sku: str
    price: Decimal


@effect(key="charge:{order}", in_doubt="hold", destination=STRIPE)
def charge(order: str) -> Decimal:
    raise ConnectionError(f"no answer\nabout {order} \x1b[2J")


@durable_task
def total(day: date, *lines: Line, currency: str = "EUR") -> dict[str, object]:
    assert isinstance(day, date), day
    return {"day": day, "sum": sum(line.price for line in lines), "currency": currency}


@durable_task(retry=Retry(max_attempts=1))
def sell(order: str) -> str:
    return f"{charge(order)!r}"


@durable_task(retry=Retry(max_attempts=1))
def fails(number: int) -> None:
    raise ValueError(f"no {number}")


@durable_task(retry=Retry(delay=60.0))
def fails_thrice(number: int) -> None:
    raise ValueError(f"no {number}")


@durable_task
def waits(begun: str) -> None:
    """Works until it is cancelled or killed, without a sign that it wants to stop."""
    Path(begun).touch()
    while True:
        time.sleep(0.02)


@durable_task
async def waits_kindly(begun: str) -> None:
    import asyncio

    Path(begun).touch()
    await asyncio.sleep(600)


@durable_task(on="order.placed")
def greet(payload: dict[str, str]) -> str:
    return f"hello {payload['name']}"
