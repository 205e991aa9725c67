"""A worker on a host of its own: ``python host_program.py URL NAME LEASE``.

It tells what it does, a line each.

The run calls one effect after the other for as long as ``a`` executes it; on ``b`` it ends after three
requests of b's own. Times are of the machine's monotonic clock, which namespaces share.
"""

from __future__ import annotations

import asyncio
import sys
import time

from effectlog import EffectLog, Retry, durable_task, effect

URL, NAME, LEASE = sys.argv[1], sys.argv[2], float(sys.argv[3])
requests: list[int] = []


def tell(what: str, about: object = "") -> None:
    print(what, time.monotonic(), about, flush=True)


@effect(key="tick:{number}")
def tick(number: int) -> str:
    requests.append(number)
    tell("request", number)
    time.sleep(0.1)
    return NAME


@durable_task(name="cut_off", retry=Retry(max_crashes=9))
def cut_off() -> str:
    for number in range(100_000):
        try:
            tick(number)
        except BaseException as error:
            tell("lost", f"{type(error).__name__}: {error}")
            raise
        if NAME == "b" and len(requests) >= 3:
            break
    return NAME


async def main() -> None:
    async with EffectLog(URL, lease=LEASE) as log, log.worker(concurrency=1):
        tell("ready")
        await asyncio.sleep(60)


asyncio.run(main())
