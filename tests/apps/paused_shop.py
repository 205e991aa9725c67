"""Tasks that a worker A which stops itself shares with its peer B."""

from __future__ import annotations

import asyncio
import threading

from effectlog import Retry, current_attempt, durable_task, effect

may_return = threading.Event()


def by() -> str:
    return current_attempt().worker


@durable_task(retry=Retry(delay=0.0))
async def waits_at_a() -> str:
    """Never ends at A."""
    if by() == "A":
        print("inside", flush=True)
        await asyncio.sleep(3600)
    return by()


@effect(key="charge", in_doubt="hold")
def charge() -> str:
    print("charged", flush=True)
    may_return.wait()
    return by()


@durable_task
def charges() -> str:
    return charge()


@durable_task
async def ends_at_once() -> str:
    return by()


@durable_task(concurrency=1)
async def one_at_a_time() -> str:
    return by()
