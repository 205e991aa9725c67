"""Worker A, which stops itself (SIGSTOP) in the middle of a transaction: ``python stopping_process.py URL POINT LEASE PATIENCE``.

It obeys the lines ``stop`` (at the next POINT), ``return`` and ``enqueue``. POINT is ``STATEMENT:HOW``: ``before`` the statement
is sent, ``after`` its answer, ``unread`` when it is sent and its answer not read, or in front of it with
another one ``prepared``, when the server waits inside a statement and none of its time-outs runs.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from typing import Any

from asyncpg import Record
from paused_shop import charges, ends_at_once, may_return, one_at_a_time, waits_at_a

from effectlog import EffectLog
from effectlog.store.postgres.batch import Batch
from effectlog.store.postgres.store import PostgresStore

URL, POINT, LEASE, PATIENCE = *sys.argv[1:3], *map(float, sys.argv[3:])
STATEMENT, HOW = POINT.split(":")
armed = False
fetch = Batch.fetch


def stop() -> None:
    global armed  # noqa: PLW0603 - a program of its own
    armed = False
    print("stopping", flush=True)
    # Sent to this very thread, which therefore does nothing more; the others stop with it.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


async def stopping_fetch(self: Batch, statement: str, *args: Any) -> list[Any]:
    if statement != STATEMENT or not armed or not args[0]:
        return await fetch(self, statement, *args)
    if HOW == "prepared":
        driver: Any = self.connection
        await driver._con._protocol.prepare("half", "SELECT 1", 10.0, record_class=Record)
    if HOW in ("prepared", "before"):
        stop()
    asked = asyncio.ensure_future(fetch(self, statement, *args))
    if HOW == "unread":
        await asyncio.sleep(0)
        stop()
    rows = await asked
    if HOW == "after":
        stop()
    return rows


async def obey(log: EffectLog) -> None:
    global armed  # noqa: PLW0603 - as above
    while order := (await asyncio.to_thread(sys.stdin.readline)).strip():
        if order == "stop":
            armed = True
        elif order == "return":
            may_return.set()
        elif order == "enqueue":
            await log.enqueue(ends_at_once.with_options(idempotency_key="key"))
        print(order, "done", flush=True)


async def main() -> None:
    Batch.fetch = stopping_fetch  # type: ignore[method-assign]  # a point in the middle can't be had otherwise
    tasks = [waits_at_a, ends_at_once, one_at_a_time, charges]
    store = PostgresStore(URL, patience=PATIENCE)
    async with EffectLog(store, lease=LEASE, check_store=False) as log, log.worker(name="A", tasks=tasks):
        print("ready", flush=True)
        await obey(log)


asyncio.run(main())
