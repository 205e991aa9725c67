"""Worker A or B: one real process that sends one receipt, reports each boundary and can be held there.

Told over a pipe what to do; when the pipe ends, so does the process, however the experiment went. The tool
is the article's: it posts to the destination and then waits before it returns.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.failure_window.forgetful import ForgetfulStore
from benchmarks.failure_window.scenarios import Form, Point
from effectlog import EffectLog, Retry, current_attempt, durable_task, effect, operation_id
from effectlog.store.resolve import resolve_store
from effectlog.testing.destinations import send

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from multiprocessing.connection import Connection


@dataclass(frozen=True, slots=True)
class StoreAt:
    """Which store, as every process of one run opens it."""

    url: str
    schema: str | None = None
    forgetful: bool = False

    @property
    def file(self) -> Path | None:
        """The SQLite file, where it is one."""
        return Path(self.url) if self.schema is None else None

    def store(self) -> Any:
        if self.schema is None:
            inner = resolve_store(self.url)
        else:
            from effectlog.store.postgres.store import PostgresStore  # noqa: PLC0415 - an extra

            inner = PostgresStore(self.url, schema=self.schema)
        return ForgetfulStore(inner) if self.forgetful else inner


@dataclass(frozen=True, slots=True)
class Settings:
    """What one worker process is told at its start. Durations in seconds."""

    name: str
    store: StoreAt
    destination: str
    lease: float
    wait: float
    holds: frozenset[Point]


class Link:
    """The pipe to the runner: what happens here goes out, ``open`` and ``go`` come in."""

    def __init__(self, settings: Settings, pipe: Connection) -> None:
        self.settings = settings
        self.opened = asyncio.Event()
        self._pipe = pipe
        self._mutex = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._go = asyncio.Semaphore(0)
        threading.Thread(target=self._obey, name="orders", daemon=True).start()

    def _obey(self) -> None:
        while True:
            try:
                order = self._pipe.recv()
            except (EOFError, OSError):
                os._exit(1)
            self._loop.call_soon_threadsafe(self.opened.set if order == "open" else self._go.release)

    def tell(self, event: str, **facts: Any) -> None:
        """Say what happens now, by the clock that all processes of the machine share."""
        with self._mutex:
            self._pipe.send({"event": event, "at": time.monotonic(), **facts})

    async def reach(self, point: Point, **facts: Any) -> None:
        """Report a boundary, and stay there if told to, until ``go``."""
        self.tell(point, **facts)
        if point in self.settings.holds:
            await self._go.acquire()

    def block_on(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """The same for code that blocks its thread, and that nothing can cancel therefore."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


link: Link


async def _exchange(order: str, key: str | None, *, inside: bool) -> str:
    await link.reach(Point.SENDING)
    link.tell("request", keyed=key is not None)
    answer = await asyncio.to_thread(send, link.settings.destination, {"operation": order}, key=key)
    since = time.monotonic()
    await link.reach(Point.ANSWERED, receipt=answer["id"])
    if inside:
        await _linger(since)
    return str(answer["id"])


async def _linger(since: float) -> None:
    """Wait as the article's tool did, in one piece with whatever held us at the boundary."""
    await asyncio.sleep(since + link.settings.wait - time.monotonic())
    link.tell("waited")


async def _after(form: Form) -> None:
    if form is Form.AFTER:
        since = time.monotonic()
        await link.reach(Point.RETURNED)
        await _linger(since)


async def _send(order: str, form: Form) -> str:
    key = operation_id() if form is Form.KEYED else None
    return await _exchange(order, key, inside=form is not Form.AFTER)


def _send_blocking(order: str, form: Form) -> str:
    key = operation_id() if form is Form.KEYED else None
    receipt: str = link.block_on(_exchange(order, key, inside=form is not Form.AFTER))
    return receipt


_SEND = {
    policy: effect(key="receipt:{order}", name=f"send-receipt-{policy}", in_doubt=policy)(_send)
    for policy in ("resend", "hold")
}
_SEND_BLOCKING = {
    policy: effect(key="receipt:{order}", name=f"send-receipt-{policy}-blocking", in_doubt=policy)(
        _send_blocking
    )
    for policy in ("resend", "hold")
}


def _policy(form: Form) -> str:
    return "hold" if form is Form.HOLD else "resend"


def _result(receipt: str) -> dict[str, str]:
    return {"receipt": receipt, "by": current_attempt().worker}


@durable_task(name="receipt", retry=Retry(max_attempts=2), timeout=60)
async def receipt(order: str, form: Form) -> dict[str, str]:
    """Send one receipt."""
    await link.reach(Point.BEGUN, attempt=current_attempt().number)
    sent = await _SEND[_policy(form)](order, form)
    await _after(form)
    return _result(sent)


@durable_task(name="receipt-blocking", retry=Retry(max_attempts=2), timeout=60)
def receipt_blocking(order: str, form: Form) -> dict[str, str]:
    """Send one receipt with a client that blocks."""
    link.block_on(link.reach(Point.BEGUN, attempt=current_attempt().number))
    sent = _SEND_BLOCKING[_policy(form)](order, form)
    link.block_on(_after(form))
    return _result(sent)


async def _serve(settings: Settings, pipe: Connection) -> None:
    global link  # noqa: PLW0603 - one process, one worker, one pipe
    link = Link(settings, pipe)
    link.tell("up")
    await link.opened.wait()
    checked = not settings.store.forgetful
    async with EffectLog(settings.store.store(), lease=settings.lease, check_store=checked) as log:
        worker = log.worker(name=settings.name, concurrency=1)
        await worker.serve(ready=lambda: link.tell("serving"))
    link.tell("left")


def main(settings: Settings, pipe: Connection) -> None:
    """Be one worker until told to go, or killed."""
    # Of each doubt and each lost lease there is a warning, and this experiment consists of them.
    logging.getLogger("effectlog").setLevel(logging.CRITICAL)
    asyncio.run(_serve(settings, pipe))
