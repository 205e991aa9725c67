"""One worker process: ``python worker.py NAME STORE COLLECTOR``.

With DIES set it is killed in the middle of an effect.
"""

from __future__ import annotations

import asyncio
import sys

import shop
from sdk import set_up

from effectlog import EffectLog


async def main(name: str, store: str, collector: str) -> None:
    provider = set_up(name, collector)
    print(f"{name} is there", flush=True)
    sys.stdin.readline()
    async with EffectLog(store, lease=3.0) as log:
        shop.log = log
        await log.worker(name=name).serve()
    provider.shutdown()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
