"""The tasks of the workers' tests, and what their processes do.

What an effect really does is one line in the file named by ``REQUESTS``: time (monotonic, one clock
for the machine), process, what.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from effectlog import EffectLog, Retry, Run, current_attempt, durable_task, effect, operation_id
from effectlog.store import commands
from effectlog.store.sqlite.store import SqliteStore
from effectlog.worker import maintenance

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection


TIMEOUT = 1.0
"""Seconds that the timed tasks and effects may take."""


def note(text: str) -> None:
    """Append one line in one write, so that lines of several processes never mix."""
    line = f"{time.monotonic():.6f} {os.getpid()} {text}\n".encode()
    descriptor = os.open(os.environ["REQUESTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


@effect(key="send:{what}")
def send(what: str) -> str:
    note(what)
    return what


@effect(key="slow:{what}")
async def send_slowly(what: str, seconds: float) -> str:
    note(what)
    await asyncio.sleep(seconds)
    return what


@effect(key="block:{what}")
def send_blocking(what: str, seconds: float) -> str:
    note(what)
    time.sleep(seconds)
    return what


@durable_task(name="quick")
async def quick(what: str) -> str:
    return send(what)


@durable_task(name="bare")
async def bare(what: str) -> str:
    """No effect: its line says when the body began."""
    note(what)
    return what


@durable_task(name="slow", retry=Retry(max_crashes=50))
async def slow(what: str, seconds: float) -> str:
    return await send_slowly(what, seconds)


@durable_task(name="two", retry=Retry(max_crashes=50))
async def two(what: str, seconds: float) -> str:
    """An effect, a pause that can be interrupted, and another effect."""
    send(f"{what}:1")
    await asyncio.sleep(seconds)
    return send(f"{what}:2")


@durable_task(name="stays once", retry=Retry(max_crashes=50))
async def stays_once(what: str) -> str:
    """Between two effects its first attempt waits for whatever the test does to it; a later one goes on."""
    send(f"{what}:1")
    if current_attempt().number == 1:
        await asyncio.sleep(60)
    return send(f"{what}:2")


@durable_task(name="blocking")
async def blocking(what: str, seconds: float) -> str:
    return send_blocking(what, seconds)


@durable_task(name="threaded")
def threaded(what: str, seconds: float) -> str:
    return send_blocking(what, seconds)


@durable_task(name="limited", concurrency=1)
async def limited(what: str, seconds: float) -> str:
    note(f"begin {what}")
    await asyncio.sleep(seconds)
    note(f"end {what}")
    return what


@durable_task(name="poison", retry=Retry(max_crashes=3))
async def poison(what: str) -> None:
    send(what)
    os._exit(9)


@durable_task(name="once", retry=Retry(max_attempts=1))
async def once(what: str, seconds: float) -> str:
    send(what)
    await asyncio.sleep(seconds)
    return what


@durable_task(name="failing", retry=Retry(max_attempts=2, delay=1.0, jitter=0.0))
async def failing(what: str) -> None:
    note(f"try {what}")
    raise RuntimeError(what)


@effect(key="deliver:{what}")
def deliver(what: str, kills: int) -> str:
    """The receiver has it; then the process is killed so many times, and told to drain afterwards."""
    sent = Path(os.environ["REQUESTS"])
    before = sent.read_text(encoding="utf-8").count(f"deliver {what} ") if sent.exists() else 0
    note(f"deliver {what} {operation_id()}")
    os.kill(os.getpid(), signal.SIGKILL if before < kills else signal.SIGTERM)
    return what


@durable_task(name="delivers")
async def delivers(what: str, kills: int) -> str:
    return deliver(what, kills)


ONCE = Retry(max_attempts=1)


@effect(key="timed:{what}", timeout=TIMEOUT)
async def send_in_time(what: str, seconds: float) -> str:
    note(what)
    await asyncio.sleep(seconds)
    return what


@durable_task(name="timed", timeout=TIMEOUT, retry=ONCE)
async def timed(what: str, seconds: float) -> str:
    note(what)
    await asyncio.sleep(seconds)
    return what


@durable_task(name="timed thread", timeout=TIMEOUT, retry=ONCE)
def timed_thread(what: str, seconds: float) -> str:
    note(what)
    time.sleep(seconds)
    return send(f"{what} sent")


@durable_task(name="timed effect", retry=ONCE)
async def timed_effect(what: str, seconds: float) -> str:
    return await send_in_time(what, seconds)


TASKS = {
    task.spec.name: task
    for task in (
        *(quick, bare, slow, two, stays_once, blocking, threaded, limited, poison, once, failing),
        *(timed, timed_thread, timed_effect, delivers),
    )
}


async def work(db: str, options: dict[str, Any], pipe: Connection) -> None:
    names = options.pop("tasks", None)
    lease = options.pop("lease", 30.0)
    tasks = None if names is None else [TASKS[name] for name in names]
    async with EffectLog(db, lease=lease) as log:
        await log.worker(tasks=tasks, **options).serve(ready=lambda: pipe.send("ready"))


async def enqueue(db: str, options: dict[str, Any], pipe: Connection) -> None:
    """When told, enqueue the same call ``times`` times at once; tells the handles."""
    task = TASKS[options["task"]].with_options(idempotency_key=options.get("key"))
    async with EffectLog(db) as log:
        pipe.send("ready")
        await asyncio.to_thread(pipe.recv)
        calls = (log.enqueue(task, *options["args"]) for _ in range(options["times"]))
        runs = await asyncio.gather(*calls, return_exceptions=True)
    pipe.send([(run.id, run.created) if isinstance(run, Run) else repr(run) for run in runs])


class Unheard(SqliteStore):
    """Commits what creates a run, and dies before anybody hears of it."""

    async def apply(self, batch: Sequence[commands.Command]) -> list[commands.Outcome]:
        outcomes = await super().apply(batch)
        if any(isinstance(command, commands.CreateRuns) for command in batch):
            os.kill(os.getpid(), signal.SIGKILL)
        return outcomes


async def enqueue_unheard(db: str, options: dict[str, Any], pipe: Connection) -> None:
    """Enqueue a call, and be killed between its commit and the answer."""
    task = TASKS[options["task"]].with_options(idempotency_key=options.get("key"))
    # Unchecked: the check makes runs of its own, and would be killed for them.
    async with EffectLog(Unheard(db), check_store=False) as log:
        pipe.send("ready")
        await log.enqueue(task, *options["args"])


async def inline(db: str, options: dict[str, Any], pipe: Connection) -> None:
    """Execute one run here; tells its result."""
    task = TASKS[options["task"]].with_options(
        idempotency_key=options["key"], delay=options.get("delay", 0.0)
    )
    async with EffectLog(db) as log:
        pipe.send("ready")
        pipe.send(await log.run(task, *options["args"]))


async def feed(db: str, options: dict[str, Any], pipe: Connection) -> None:
    """Enqueue one run after the other, each once the one before has been executed."""
    async with EffectLog(db) as log:
        pipe.send("ready")
        for n in range(options["start"], options["start"] + options["count"]):
            await asyncio.sleep(options["pause"])
            run = await log.enqueue(bare, f"new {n}")
            note(f"enqueued {n}")
            await run.result(10)


async def purge(db: str, options: dict[str, Any], pipe: Connection) -> None:
    """When told, purge all that has ended so, in small batches."""
    maintenance.PURGE_BATCH = options["batch"]
    async with EffectLog(db) as log:
        pipe.send("ready")
        await asyncio.to_thread(pipe.recv)
        await log.purge(0, state=options.get("state"))


COMMANDS = {
    "work": work,
    "enqueue": enqueue,
    "enqueue unheard": enqueue_unheard,
    "inline": inline,
    "feed": feed,
    "purge": purge,
}


def main(command: str, db: str, requests: str, options: dict[str, Any], pipe: Connection) -> None:
    """The whole of one process."""
    os.environ["REQUESTS"] = requests
    warnings.simplefilter("ignore")
    if options.pop("tell_warnings", False):
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_: note(f"warning: {message}")  # type: ignore[assignment]
    asyncio.run(COMMANDS[command](db, options, pipe))
