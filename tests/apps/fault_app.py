"""Processes for the fault suites, forked from one that has everything imported.

A child is a process like any other.

As a program it reads one JSON order a line and answers with the child's process id. The order names a role
below.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import traceback
from typing import Any

import effectlog.store.sqlite  # noqa: F401 - imported here so that no child has to
from effectlog import EffectLog, Retry, current_attempt, durable_task, effect, operation_id
from effectlog.testing.destinations import send

EFFECTS = 3


@effect(key="send:{number}")
def send_one(number: int) -> int:
    attempt = current_attempt()
    made_by = {"attempt": attempt.number, "pid": os.getpid()}
    send(
        os.environ["DESTINATION"],
        {"operation": f"{attempt.run_id}/{number}", **made_by},
        key=operation_id(),
        timeout=60,
    )
    return number


@durable_task(retry=Retry(max_crashes=1000, delay=0.0))
def sends() -> list[int]:
    return [send_one(number) for number in range(EFFECTS)]


@effect(key="note:{number}")
async def note(number: int) -> int:
    await asyncio.sleep(0)
    return number


@durable_task(retry=Retry(delay=0.0))
async def notes(run: str) -> list[int]:
    return [await note(number) for number in range(EFFECTS)]


async def work(db: str, *, lease: float, concurrency: int) -> None:
    """A worker until SIGTERM."""
    async with EffectLog(db, lease=lease, check_store=False) as log:
        await log.worker(concurrency=concurrency, tasks=[sends]).serve()


async def mix(db: str, *, seconds: float, tasks: int) -> None:
    """Several tasks that each make runs and wait for them, beside a worker that executes whatever there is."""
    async with (
        EffectLog(db, check_store=False) as log,
        asyncio.timeout(seconds + 30),
        log.worker(concurrency=4, tasks=[notes]),
        asyncio.TaskGroup() as group,
    ):
        end = asyncio.get_running_loop().time() + seconds
        for number in range(tasks):
            group.create_task(_make_and_wait(log, f"{os.getpid()}-{number}", end))


async def _make_and_wait(log: EffectLog, name: str, end: float) -> None:
    count = 0
    while asyncio.get_running_loop().time() < end:
        run = await log.enqueue(notes.with_options(idempotency_key=f"{name}-{count}"), name)
        assert await run.result() == list(range(EFFECTS))
        count += 1


ROLES = {"work": work, "mix": mix}


def become(order: dict[str, Any]) -> None:
    """Never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    status = 1
    try:
        os.environ.update(order["environment"])
        errors = os.open(order["errors"], os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        os.dup2(errors, 2)
        asyncio.run(ROLES[order["role"]](order["db"], **order["options"]))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(ValueError):
            sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Fork on order, and tell of each child how it ended when asked."""
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            answer = os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                become(order)
        os.write(1, f"{answer}\n".encode())


if __name__ == "__main__":
    main()
