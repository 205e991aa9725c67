"""Tasks for the tests of the whole log on PostgreSQL, and a worker process of them."""

from __future__ import annotations

import asyncio
import sys

from effectlog import EffectLog, Retry, durable_task, effect

requests: list[str] = []
inside = asyncio.Event()
go_on = asyncio.Event()


@effect(key="charge:{order}")
async def charge(order: str) -> str:
    requests.append(order)
    return f"charge of {order}"


@effect(key="mail:{order}", in_doubt="hold")
def mail(order: str) -> str:
    requests.append(f"mail {order}")
    raise TimeoutError("no answer")


@durable_task(retry=Retry(delay=0.0))
async def sell(order: str) -> str:
    return await charge(order)


@durable_task(retry=Retry(delay=0.0))
async def sell_and_mail(order: str) -> str:
    await charge(order)
    return mail(order)


@durable_task(on="sold")
async def thank(order: str) -> str:
    return f"thanks for {order}"


@durable_task
async def wait_inside() -> str:
    inside.set()
    await go_on.wait()
    return "over"


@effect(key="slow")
async def slow() -> str:
    print("inside", flush=True)
    await asyncio.sleep(3600 if "hang" in sys.argv else 0)
    return "done"


@durable_task
async def slowly() -> str:
    return await slow()


async def work(url: str) -> None:
    async with EffectLog(url, lease=60.0, check_store=False) as log:
        await log.worker(tasks=[slowly]).serve()


if __name__ == "__main__":
    sys.modules["shop"] = sys.modules["__main__"]
    asyncio.run(work(sys.argv[1]))
