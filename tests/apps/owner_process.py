"""A process that holds an owner alive: ``python owner_process.py URL SCHEMA OWNER [fork]``, until it is killed.

It prints ``held`` once everybody can see that it is alive, and ``child PID`` if it forked.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

from effectlog.store.postgres.store import PostgresStore


async def hold(url: str, schema: str, owner: str, *, fork: bool) -> None:
    store = PostgresStore(url, schema=schema)
    await store.open()
    await store.liveness.hold(owner)
    if fork:
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        print("child", child, flush=True)
    print("held", flush=True)
    await asyncio.sleep(60)


asyncio.run(hold(*sys.argv[1:4], fork="fork" in sys.argv))
