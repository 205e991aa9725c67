"""The tasks that are measured: trivial effects, so that what is left is effectlog's own cost."""

from __future__ import annotations

import time

from effectlog import Retry, current_attempt, durable_task, effect


@effect(key="effect:{number}")
async def trivial(number: int) -> int:
    """Does nothing."""
    return number


@effect(key="effect:{number}")
def trivial_sync(number: int) -> int:
    """Does nothing, in the calling thread."""
    return number


@durable_task
async def few(effects: int) -> int:
    """A run of a few effects, one after the other."""
    for number in range(effects):
        await trivial(number)
    return effects


times: dict[int, tuple[float, float, float, float]] = {}
"""By attempt number: wall and processor clocks when its effects began and ended."""


@durable_task(retry=Retry(max_attempts=2, delay=0.0))
async def many(effects: int, *, twice: bool) -> int:
    """A run of many effects; ``twice``: the first attempt fails at the end, so that the second replays."""
    attempt = current_attempt().number
    begin = time.perf_counter(), time.process_time()
    for number in range(effects):
        await trivial(number)
    times[attempt] = (*begin, time.perf_counter(), time.process_time())
    if twice and attempt == 1:
        raise RuntimeError("once more")
    return effects


@durable_task
async def started_at() -> float:
    """When a worker began with it, on the clock that all processes share."""
    return time.monotonic()
