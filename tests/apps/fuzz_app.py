"""What the command line's fuzz may import."""

from __future__ import annotations

import datetime as dt  # noqa: TC003 - the command line resolves it

from effectlog import durable_task


@durable_task
def plain(a: int, b: str = "x", *rest: float, **more: str) -> int:
    return a


@durable_task(on="fuzz.event", concurrency_key="{payload}")
def listens(payload: object, day: dt.date | None = None) -> None: ...


not_a_task = 7
