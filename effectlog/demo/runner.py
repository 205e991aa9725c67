"""Plays the parts: enqueues a charge, kills its worker at the right moment, lets the other one finish."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from effectlog.demo import report
from effectlog.demo.processes import PATIENCE, Child, Event, Processes
from effectlog.demo.scenarios import PARTS, Counts, Part
from effectlog.demo.timeline import Outcome, timeline
from effectlog.log import EffectLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from effectlog.runs.run import Run

_CENTS = 1999


@dataclass(slots=True)
class Scenarios:
    """One store, one destination, and two workers at the beginning of every part."""

    stage: Processes
    log: EffectLog
    url: str
    store: str
    running: contextlib.AsyncExitStack
    workers: list[Child] = field(default_factory=list)

    async def fill(self) -> None:
        """Start workers until there are two; the survivor of the part before goes on."""
        command = (
            "effectlog",
            "worker",
            "effectlog.demo.tasks",
            "effectlog.demo.exit_with_parent",
            "--store",
            self.store,
        )
        new = [await self._started(*command) for _ in range(2 - len(self.workers))]
        for child in new:
            await self.stage.told("a worker serves", _serving(child))
        self.workers += new

    async def _started(self, *command: str) -> Child:
        return await self.running.enter_async_context(self.stage.child(*command))

    def kill(self, child: Child) -> None:
        """SIGKILL to one of the workers."""
        child.kill()
        self.workers.remove(child)


async def play_all() -> bool:
    """Play every part, all of it in a folder that is removed; true if every count was as promised."""
    began = time.monotonic()
    _end_on_sigterm()
    outcomes: list[Outcome] = []
    async with _theatre() as theatre:
        report.opening(theatre.url)
        for number, part in enumerate(PARTS, 1):
            outcomes.append(await _play(part, theatre))
            report.played(number, outcomes[-1])
    report.verdict(outcomes, time.monotonic() - began)
    return all(outcome.as_promised for outcome in outcomes)


@contextlib.asynccontextmanager
async def _theatre() -> AsyncIterator[Scenarios]:
    stage = Processes()
    with tempfile.TemporaryDirectory(prefix="effectlog-demo-") as folder:
        store = str(Path(folder) / "store.db")
        # What is entered last is left first: no process has a file open that is being removed.
        async with contextlib.AsyncExitStack() as running:
            log = await running.enter_async_context(EffectLog(store))
            destination = ("effectlog.demo.destination", str(Path(folder) / "destination.db"))
            await running.enter_async_context(stage.child(*destination))
            listening = await stage.told("the destination listens", lambda event: event.name == "listening")
            yield Scenarios(stage, log, listening.facts["url"], store, running)


def _end_on_sigterm() -> None:
    """SIGTERM ends the demo as Ctrl-C does: with everything that it started."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is None:
        return
    try:
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    except NotImplementedError:  # Windows' loop has no such thing.
        signal.signal(signal.SIGTERM, lambda *_: loop.call_soon_threadsafe(task.cancel))


async def _play(part: Part, theatre: Scenarios) -> Outcome:
    stage, url = theatre.stage, theatre.url
    await theatre.fill()
    run = await theatre.log.enqueue(part.task, f"{url}{part.path}", part.order, _CENTS)
    sent = await stage.told("a worker sends the charge", _about(part, "send"))
    await stage.told("the destination accepts it", _about(part, "accepted"))
    if part.killed_after == "completed":
        await _completed(run)
    theatre.kill(sent.child)
    await run.result(timeout=PATIENCE)
    record = await run.record()
    seen = await asyncio.to_thread(_ask, f"{url}/counts/{part.order}")
    counts = Counts(len(record.attempts), seen["requests"], seen["effects"])
    told = [event for event in stage.events if event.facts.get("order") == part.order]
    return Outcome(part, counts, timeline(told, sent, record))


def _serving(child: object) -> Callable[[Event], bool]:
    return lambda event: event.name == "serving" and event.child is child


def _about(part: Part, name: str) -> Callable[[Event], bool]:
    return lambda event: event.name == name and event.facts.get("order") == part.order


async def _completed(run: Run[Any]) -> None:
    """Return when the journal has the effect's result: from then on no crash can lose it."""
    async with asyncio.timeout(PATIENCE):
        while not any(effect.finished_at for effect in (await run.record()).effects):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


def _ask(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:  # noqa: S310 - our own http URL
        return json.load(answer)
