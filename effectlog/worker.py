"""The thin scheduler: claims due runs, executes them on its loop, takes over from gone owners, drains."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

from effectlog import commands as c
from effectlog.blocked import LoopWatch
from effectlog.errors import EffectLogError, StoreClosed
from effectlog.executor import Executor, claim_command
from effectlog.lease import Owner
from effectlog.takeover import dead_owners, take_over

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from effectlog.codec import Codec
    from effectlog.engine import Engine
    from effectlog.spec import TaskSpec

logger = logging.getLogger("effectlog")

LIVENESS_INTERVAL = 0.05
"""Seconds between two looks at whether other owners' processes are gone."""
LEASE_INTERVAL = 0.25
"""Seconds between two looks at whether other owners' leases have run out."""
LEAVE_WITHIN = 1.5
"""Seconds after a second signal at which ``serve`` ends the process, whatever code would not stop."""


class Worker:
    """Executes runs until it is drained. Made by ``EffectLog.worker``."""

    def __init__(
        self,
        engine: Engine,
        codec: Codec,
        tasks: Callable[[], Mapping[str, TaskSpec]],
        *,
        concurrency: int,
        name: str | None,
        lease: float,
        heartbeat: float,
        max_value_bytes: int,
        prepare: Callable[[], Any],
    ) -> None:
        self.name = name or f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:6]}"
        self._engine = engine
        self._codec = codec
        self._tasks = tasks
        self._concurrency = concurrency
        self._heartbeat = heartbeat
        self._prepare = prepare
        self._owner = Owner(engine, name=self.name, lease=lease, heartbeat=heartbeat)
        self._executor = Executor(engine, codec, owner=self._owner, max_value_bytes=max_value_bytes)
        self._blocked = LoopWatch(engine, self._executor, lease)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._claiming: asyncio.Task[None] | None = None
        self._poked = False
        self._stopping = False
        self._changed = True
        self._owners: dict[str, str] = {}
        self._next_lease_look = 0.0
        self._next_beat = 0.0
        self._claimed_at: float | None = None

    # --- life ----------------------------------------------------------------------------------

    async def __aenter__(self) -> Worker:
        """Begin to claim. Raises StoreClosed if the log is not open."""
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        await self._prepare()
        await self._owner.start()
        self._blocked.start(self._loop)
        self._engine.listen(self._poke)
        self._claiming = self._loop.create_task(self._claim_until_stopped())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drain; on an exception release instead."""
        if kind is None:
            await self.drain()
        else:
            await self.release()

    async def drain(self, timeout: float | None = None) -> None:
        """Claim nothing more and wait for what is being executed; after ``timeout`` seconds release the rest."""
        await self._stop_claiming()
        if await self._executor.wait(timeout):
            await self._leave(stay_alive=False)
        else:
            await self.release()

    async def release(self) -> bool:
        """Give everything back; no attempt is used up. False if code is left behind that would not stop."""
        await self._stop_claiming()
        stopped = await self._executor.release()
        # Others must not take over what still runs here, so the sign of life stays with the process.
        await self._leave(stay_alive=not stopped)
        return stopped

    async def _leave(self, *, stay_alive: bool) -> None:
        self._engine.unlisten(self._poke)
        self._blocked.stop()
        with contextlib.suppress(EffectLogError):
            await self._engine.commit(c.Leave(self._owner.id))
        await self._owner.stop(stay_alive=stay_alive)

    async def serve(self) -> None:
        """Work until SIGTERM or SIGINT, then drain; a second signal releases.

        After the second signal the process ends within 2 seconds, even where code would not stop.
        """
        loop = asyncio.get_running_loop()
        signals: asyncio.Queue[int] = asyncio.Queue()
        handled = (signal.SIGTERM, signal.SIGINT)
        for handled_signal in handled:
            loop.add_signal_handler(handled_signal, signals.put_nowait, int(handled_signal))
        try:
            await self.__aenter__()
            number = await signals.get()
            logger.info("effectlog: %s: signal %s, draining; once more releases", self.name, number)
            draining = loop.create_task(self.drain())
            again = loop.create_task(signals.get())
            await asyncio.wait({draining, again}, return_when=asyncio.FIRST_COMPLETED)
            again.cancel()
            if not draining.done():
                draining.cancel()
                self._end_process_soon(number)
                await self.release()
        finally:
            for handled_signal in handled:
                loop.remove_signal_handler(handled_signal)

    def _end_process_soon(self, number: int) -> None:
        """Threads that will not end would keep the interpreter, so the process ends without joining them."""
        timer = threading.Timer(LEAVE_WITHIN, os._exit, [128 + number])
        timer.daemon = True
        timer.start()

    async def _stop_claiming(self) -> None:
        """Let the round that is under way end: what it claims must be executed or given back."""
        if self._claiming is None or self._wake is None:
            return
        self._stopping = True
        self._wake.set()
        await asyncio.wait({self._claiming})

    # --- claiming ------------------------------------------------------------------------------

    def _poke(self) -> None:
        """Something changed in the store; called on the engine's thread."""
        self._changed = True
        if not self._poked and self._loop is not None and self._wake is not None:
            self._poked = True
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake.set)

    async def _claim_until_stopped(self) -> None:
        pause = LIVENESS_INTERVAL
        while not self._stopping:
            try:
                wait = await self._look()
                pause = LIVENESS_INTERVAL
            except StoreClosed:
                return
            except EffectLogError as error:
                logger.warning("effectlog: %s can't claim and tries again: %s", self.name, error)
                wait = pause = min(pause * 2, 5.0)
            except Exception:
                logger.exception("effectlog: %s could not claim and tries again", self.name)
                wait = pause = min(pause * 2, 5.0)
            await self._sleep(wait)

    async def _sleep(self, seconds: float) -> None:
        assert self._wake is not None  # noqa: S101 - set before this task exists
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()
        self._poked = False

    async def _look(self) -> float:
        """One round: take over, claim, report; gives the seconds until the next one is due."""
        tasks = self._tasks()
        await self._take_over(tasks)
        next_in = await self._claim(tasks)
        await self._beat()
        waits = [LIVENESS_INTERVAL if len(self._owners) > 1 or self._strangers() else LEASE_INTERVAL]
        return min(waits + ([] if next_in is None else [next_in]))

    def _strangers(self) -> bool:
        return any(owner != self._owner.id for owner in self._owners)

    async def _take_over(self, tasks: Mapping[str, TaskSpec]) -> None:
        now = time.monotonic()
        leases_due = now >= self._next_lease_look
        if not leases_due and not self._changed and not self._strangers():
            return
        commands, dead = await self._engine.read(self._find_gone(tasks, leases_due=leases_due))
        if leases_due:
            self._next_lease_look = now + LEASE_INTERVAL
        if commands:
            await self._engine.commit(*commands)
            for owner in dead:
                await self._engine.read(self._engine.store.liveness.forget(owner))
            self._changed = True

    async def _find_gone(
        self, tasks: Mapping[str, TaskSpec], *, leases_due: bool
    ) -> tuple[list[c.EndAttempt], frozenset[str]]:
        """Runs on the engine's loop: several reads for one hop."""
        store = self._engine.store
        if self._changed or leases_due:
            self._changed = False
            self._owners = await store.owners()
        others = {owner: clock for owner, clock in self._owners.items() if owner != self._owner.id}
        dead = await dead_owners(store, others) if others else frozenset()
        if not dead and not leases_due:
            return [], dead
        return await take_over(store, tasks, self._codec, dead), dead

    async def _claim(self, tasks: Mapping[str, TaskSpec]) -> float | None:
        names = list(tasks)
        while not self._stopping and (free := self._concurrency - len(self._executor)) > 0:
            due = await self._engine.read(self._engine.store.due(names))
            if not due.now:
                return due.next_in
            if not await self._claim_some(tasks, free):
                return LEASE_INTERVAL  # Due, but a limit or a suspect keeps it waiting.
        return None

    async def _claim_some(self, tasks: Mapping[str, TaskSpec], free: int) -> bool:
        suspect_here = any(
            attempt.run.row.crashes >= c.SUSPECT_CRASHES for attempt in self._executor.attempts
        )
        sent = time.monotonic()
        command = claim_command(self._owner, tasks, min(free, 100), suspects=not suspect_here)
        (outcome,) = await self._engine.commit(command)
        if not isinstance(outcome, c.Claimed) or not outcome.runs:
            return False
        self._claimed_at = outcome.now
        for run in outcome.runs:
            execution = self._executor.start(run, tasks[run.row.task], sent)
            execution.add_done_callback(lambda _: self._poke())
        return True

    async def _beat(self) -> None:
        now = time.monotonic()
        if now < self._next_beat:
            return
        self._next_beat = now + self._heartbeat
        host, pid = socket.gethostname(), os.getpid()
        beat = c.Beat(self._owner.id, self.name, host, pid, self._concurrency, self._claimed_at)
        await self._engine.commit(beat)
