"""Keeping what is owned: one owner object, its heartbeat, and its own earlier end of trust.

Runs on the engine's loop, so that nothing user code does to its loop can starve it. The invariant: a
lease ends for its holder before it ends for others. Trust ends at the time just before the
renewal was sent, plus the lease, less a margin (as in river's leadership leases). A renewal that
fails is no loss; only the store's "not yours" or the local deadline is.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
import uuid
from typing import TYPE_CHECKING
from weakref import WeakSet

from effectlog.attempt.attempt import trusted_until
from effectlog.attempt.pauses import INTERVAL, PauseDetector
from effectlog.attempt.stop_reason import StopReason
from effectlog.errors import ConfigurationError, EffectLogError
from effectlog.store import commands as c
from effectlog.validation import seconds

if TYPE_CHECKING:
    from effectlog.attempt.attempt import Attempt
    from effectlog.clock import Duration
    from effectlog.engine.runtime import Runtime

logger = logging.getLogger("effectlog")


SHORTEST_LEASE = 0.05
"""Seconds. Real ones are far longer; this only keeps out those that can't work anywhere."""


def checked_lease(lease: Duration, heartbeat: Duration | None) -> tuple[float, float]:
    """The lease and the seconds between two renewals. Raises ConfigurationError for what can't work."""
    held = seconds(lease, "EffectLog(lease", positive=True)
    if held < SHORTEST_LEASE:
        raise ConfigurationError(
            f"EffectLog(lease={lease!r}): give at least {SHORTEST_LEASE:g} s; a renewal is a durable "
            "commit, and a shorter lease lapses while a healthy owner waits for it, so that runs are "
            "executed twice"
        )
    beat = held / 3 if heartbeat is None else seconds(heartbeat, "EffectLog(heartbeat", positive=True)
    if beat > held / 2:
        raise ConfigurationError(
            f"EffectLog(lease={held:g}, heartbeat={beat:g}): the heartbeat must be at most half of the lease "
            f"({held / 2:g} s), so that one lost renewal does not lose the run"
        )
    return held, beat


_owners: WeakSet[Owner] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_owners.clear)  # What goes on in the parent is not under way here.


def attempts_at(run_id: str) -> list[Attempt]:
    """The attempts at a run that are under way in this process."""
    found = (owner.attempt_of(run_id) for owner in list(_owners))
    return [attempt for attempt in found if attempt is not None]


def why_lapsed(owner_id: str) -> str:
    """Why this process let its owner's lease run out, as the end of a sentence; empty if not known."""
    for owner in [owner for owner in list(_owners) if owner.id == owner_id]:
        if owner.paused_for:
            return f" while its process stood still for {owner.paused_for:.1f} s"
        if trouble := owner.store_trouble():
            return f" because the store did not renew it ({trouble})"
    return ""


class Owner:
    """One owner of runs: a worker, or a log that executes ``run``. Its id is random, never a process id."""

    def __init__(self, runtime: Runtime, name: str) -> None:
        self.id = uuid.uuid4().hex
        self.name = name
        self.lease = runtime.lease
        self.leaves_code_behind = False
        """Something of its attempts would not stop, and may still act until the process is gone."""
        self._engine = runtime.engine
        self._heartbeat = runtime.heartbeat
        self._attempts: dict[str, Attempt] = {}
        self._starting: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._beat_now: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.pause_credit = 0.0
        """Seconds for which the process stood still and which timers counted, since this owner began."""
        self._pulse = PauseDetector()
        self._still = self._still_until = 0.0
        self._looked_at = time.monotonic()
        self._asked_at: float | None = None
        """When the renewal was sent that the store has not answered yet."""
        self._refused, self._refused_until = "", 0.0
        """The store's error for a renewal, and the monotonic time until which it can explain a lost lease."""
        _owners.add(self)

    async def start(self) -> None:
        """Begin to be alive; on return others can see it. May be called again, from any loop."""
        await self._engine.read(self._start())

    async def _start(self) -> None:
        if self._starting is None:
            self._loop = asyncio.get_running_loop()
            self._beat_now = asyncio.Event()
            self._pulse = PauseDetector()
            self._starting = self._loop.create_task(self._engine.store.liveness.hold(self.id))
            self._task = self._loop.create_task(self._keep())
        await asyncio.shield(self._starting)

    async def stop(self) -> None:
        """End the heartbeat.

        The sign of life of one that leaves code behind stays until the process is gone.
        """
        with contextlib.suppress(EffectLogError):
            await self._engine.read(self._stop())

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if not self.leaves_code_behind and not self._attempts:
            await self._engine.store.liveness.drop(self.id)

    def add(self, attempt: Attempt) -> None:
        """Keep this attempt's lease from now on."""
        attempt.want_renewal = self.beat
        attempt.notice_pause = self.notice_pause
        attempt.store_trouble = self.store_trouble
        self._attempts[attempt.run_id] = attempt

    def remove(self, attempt: Attempt) -> None:
        """Let this attempt's lease be; it has ended."""
        if self._attempts.get(attempt.run_id) is attempt:
            del self._attempts[attempt.run_id]

    def attempt_of(self, run_id: str) -> Attempt | None:
        """The owner's attempt at the run, while it is under way."""
        return self._attempts.get(run_id)

    def beat(self) -> None:
        """Renew now rather than at the next heartbeat; callable from any thread."""
        if self._loop is not None and self._beat_now is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._beat_now.set)

    @property
    def paused_for(self) -> float:
        """Seconds of the last standstill that ended no longer ago than a lease; 0 without one."""
        return self._still if time.monotonic() < self._still_until else 0.0

    def store_trouble(self) -> str:
        """What keeps the store from renewing leases; empty if nothing does, or if this process is late."""
        now = time.monotonic()
        if now - self._looked_at > self._heartbeat:
            return ""
        if now < self._refused_until:
            return self._refused
        waited = 0.0 if self._asked_at is None else now - self._asked_at
        return (
            f"{self._engine.store.name} has not answered for {waited:.1f} s"
            if waited > self._heartbeat / 2
            else ""
        )

    def _look(self) -> float:
        """The time; what was late because nobody looked is no fault of the store."""
        now = time.monotonic()
        if now - self._looked_at > self._heartbeat:
            self._refused_until = 0.0
            self._asked_at = self._asked_at and now
        self._looked_at = now
        return now

    async def notice_pause(self) -> None:
        """Look whether the process stood still, and let every attempt know; on the engine's loop."""
        pause_credit, seconds = self._pulse.look()
        if not seconds:
            return
        self.pause_credit += pause_credit
        self._still, self._still_until = seconds, time.monotonic() + self.lease
        attempts = list(self._attempts.values())
        for attempt in attempts:
            attempt.pause_credit += pause_credit
            attempt.paused_for += seconds
        if attempts:
            logger.warning(
                "effectlog: the process of %s stood still for %.1f s while it had %s run(s) under way: it "
                "was stopped, its host was, or some code kept the interpreter lock and slept. No timeout "
                "counts that time; leases do",
                self.name,
                seconds,
                len(attempts),
            )

    async def _keep(self) -> None:
        assert self._beat_now is not None  # noqa: S101 - set before this task exists
        renewing: asyncio.Task[None] | None = None
        last = self._looked_at = time.monotonic()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(self._heartbeat / 4, INTERVAL)):
                    await self._beat_now.wait()
            await self.notice_pause()
            now = self._look()
            due = self._beat_now.is_set() or now - last >= self._heartbeat
            self._beat_now.clear()
            # A renewal that the store answers late must not keep the deadlines from being watched.
            if due and self._attempts and (renewing is None or renewing.done()):
                last = now
                renewing = asyncio.create_task(self._renew())
            for attempt in list(self._attempts.values()):
                if attempt.lease_until <= now:
                    attempt.end(StopReason.LOST)

    async def _renew(self) -> None:
        attempts = dict(self._attempts)
        sent = self._asked_at = time.monotonic()
        command = c.Renew(self.id, self.lease, tuple(attempt.fence for attempt in attempts.values()))
        try:
            outcome = await self._engine.renew(command, until=sent + self._heartbeat)
        except EffectLogError as error:
            logger.warning("effectlog: a heartbeat of %s failed and is tried again: %s", self.name, error)
            # A renewal that succeeds too late for its holder lengthens the lease once more for others.
            self._refused, self._refused_until = str(error), time.monotonic() + 2 * self.lease
            self._beat_soon()
            return
        finally:
            self._asked_at = None
        if not isinstance(outcome, c.Renewed):
            return
        if outcome.blocked:
            self._beat_soon()
        for run_id, attempt in attempts.items():
            if run_id in outcome.lost:
                self._tell_lost(attempt)
                continue
            if run_id in outcome.blocked:
                continue  # Somebody else's transaction keeps it: neither renewed nor lost.
            attempt.lease_until = trusted_until(sent, self.lease)
            if run_id in outcome.cancelling:
                attempt.end(StopReason.CANCELLED)

    def _beat_soon(self) -> None:
        if self._loop is not None and self._beat_now is not None:
            self._loop.call_later(self._heartbeat / 4, self._beat_now.set)

    def _tell_lost(self, attempt: Attempt) -> None:
        # An attempt that ended while the renewal was on its way is no loss.
        if self._attempts.get(attempt.run_id) is attempt and attempt.stop_reason is not StopReason.OVER:
            attempt.end(StopReason.LOST)
