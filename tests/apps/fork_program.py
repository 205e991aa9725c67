"""A program that forks again and again while its log writes; each child works with a log of its own.

Prints how each child ended: 0 if the parent's log refused it and its own log stored a run.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback

from fault_app import notes

from effectlog import EffectLog, StoreClosed

TOO_LONG = 8
"""Seconds after which a child that hangs is ended by the alarm."""


async def main(db: str, forks: int) -> None:
    async with EffectLog(db, check_store=False) as log, log.worker(tasks=[notes], concurrency=20):
        writing = [asyncio.ensure_future(write(log)) for _ in range(2)]
        statuses = []
        for number in range(forks):
            await asyncio.sleep(0.02)
            pid = os.fork()
            if pid == 0:
                become_child(log, db, number)
            statuses.append(os.waitstatus_to_exitcode((await asyncio.to_thread(os.waitpid, pid, 0))[1]))
        for task in writing:
            task.cancel()
        await asyncio.gather(*writing, return_exceptions=True)
    print(json.dumps(statuses))


async def write(log: EffectLog) -> None:
    while True:
        runs = await log.enqueue_many(notes, [("parent",)] * 10)
        await asyncio.gather(*(run.result() for run in runs))


def become_child(log: EffectLog, db: str, number: int) -> None:
    """Never returns."""
    signal.alarm(TOO_LONG)
    status = 1
    try:
        asyncio._set_running_loop(None)
        asyncio.set_event_loop(None)
        try:
            log.sync.enqueue(notes, "child")
        except StoreClosed:
            asyncio.run(enqueue(db, number))
            status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


async def enqueue(db: str, number: int) -> None:
    async with EffectLog(db, check_store=False) as own:
        await own.enqueue(notes.with_options(idempotency_key=f"child-{number}"), "child")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
