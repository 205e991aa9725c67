"""One attempt of one run: its journal, what of it is under way, and whether it may still act.

Shared by the threads and tasks of the attempt, and by the engine's thread. The invariants: once the
attempt is ending no effect starts, and it has ended only when every request has returned and its
outcome was handed to the engine, or ownership is lost.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import warnings
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from effectlog import user_warnings
from effectlog.attempt.in_flight import InFlight
from effectlog.attempt.lease_loss import why_lost
from effectlog.attempt.pauses import PauseAwareTimer
from effectlog.attempt.stop_reason import StopReason
from effectlog.clock import utc
from effectlog.context import CurrentAttempt
from effectlog.errors import (
    AttemptOver,
    EffectLogControl,
    EffectLogError,
    EffectLogWarning,
    LeaseLost,
    RunCancelling,
)
from effectlog.printable import one_line
from effectlog.store import commands as c
from effectlog.store.rules.effects import note_outcome
from effectlog.store.rules.working_set import WorkingSet
from effectlog.telemetry import SILENT
from effectlog.user_warnings import users_level

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from effectlog.decorators.spec import EffectCall, TaskSpec
    from effectlog.engine.runtime import Runtime
    from effectlog.store.rows import EffectRow, StoredRun
    from effectlog.telemetry import Observer

logger = logging.getLogger("effectlog")


def trusted_until(sent: float, lease: float) -> float:
    """The monotonic time at which the holder stops trusting a lease that was asked for at ``sent``."""
    return sent + lease - min(0.1 * lease, 1.0)


class Attempt:
    """The state of one claimed execution."""

    unreadable_here = False
    """A recorded value is of a class that this process does not know."""
    not_before = 0.0
    """Monotonic time before which a destination does not want to be asked again. A release keeps it."""

    def __init__(
        self,
        runtime: Runtime,
        run: StoredRun,
        task: TaskSpec,
        *,
        owner: str,
        worker: str,
        lease_until: float,
        call_effect: Callable[[Attempt, EffectCall], Any],
    ) -> None:
        self.runtime = runtime
        self.engine = runtime.engine
        self.run = run
        self.task = task
        self.owner = owner
        self._call_effect = call_effect
        self.lease_until = lease_until
        """Monotonic time at which this owner stops trusting its lease; moved by each renewal."""
        self.began = time.monotonic()
        self.paused_for = self.pause_credit = 0.0
        """Seconds for which the process stood still meanwhile, and those of them that timers counted."""
        self.fence = c.Fence(run.row.id, run.row.attempt)
        self.chain = c.Chain()
        self.journal: dict[str, EffectRow] = {effect.key: effect for effect in run.effects}
        self.stop_reason: StopReason | None = None
        self.reason, self._unrenewed, self.back_in = "", "", 0.0
        self.refused = False
        """An effect wanted to start while the attempt was ending."""
        self.cut_off: set[str] = set()
        """The names of the effects that were called in time, and could not start before the body was over."""
        self.holds: dict[str, str] = {}
        self.called: set[str] = set()
        """The keys of all effects that this attempt has called."""
        self.unawaited: dict[int, tuple[str, Any]] = {}
        self.interrupt: Callable[[StopReason], None] = lambda _: None
        self.want_renewal: Callable[[], None] = lambda: None
        self.notice_pause: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.store_trouble: Callable[[], str] = lambda: ""
        """What keeps the store from renewing the lease; empty if nothing is known to."""
        self._in_flight: dict[str, InFlight] = {}
        self._calls = 0
        self._quiet: list[Callable[[], None]] = []
        self._returned_at: dict[str, float] = {}
        self._answered: set[str] = set()
        self._warned: set[str] = set()
        self._lock = threading.RLock()
        self._stop_signal: threading.Event | None = None
        # The rules foresee, on rows of our own, what the store will hold once an outcome is committed.
        self._foreseen = WorkingSet(now=0.0, lease_now=0.0, lease_clock="")
        deadline = (
            None
            if task.timeout is None
            else utc(runtime.store.clock.wall()) + timedelta(seconds=task.timeout)
        )
        self.observer: Observer = SILENT
        self.view = CurrentAttempt(run.row.id, run.row.attempt, task.name, worker, deadline)

    @property
    def run_id(self) -> str:
        return self.fence.run_id

    @property
    def extra(self) -> dict[str, Any]:
        """What a log line about this attempt carries beside its text."""
        line = {"run_id": self.run_id, "task": self.task.name, "attempt": self.fence.attempt}
        return {**line, user_warnings.EFFECT_KEYS: lambda: self.called | self.journal.keys()}

    @property
    def store_name(self) -> str:
        """The store's name, as it is shown to people."""
        return self.engine.store.name

    @property
    def trace(self) -> str | None:
        """The attempt's own span as stored text, for the runs that it makes."""
        return self.observer.trace

    def keep_trace(self, trace: str) -> None:
        """Store the span's context: if this process is killed, it is all that is left of the span."""
        self.run.attempts[-1].trace = trace
        note = c.NoteTrace(self.fence, trace)
        self.engine.post(note, until=self.lease_until, resolve=lambda *_: None)

    def call_effect(self, call: EffectCall) -> Any:
        """Make one effect call: the result of a sync one, the coroutine of an async one."""
        return self._call_effect(self, call)

    # --- may it act? ---------------------------------------------------------------------------

    def check_open(self, effect: str | None = None) -> None:
        """Raise the fitting control signal if nothing may start any more.

        ``effect``: the name of one that was called in time.
        """
        if self.stop_reason is None and time.monotonic() >= self.lease_until:
            self.end(StopReason.LOST)
        if self.stop_reason is not None:
            self.refused = True
            if effect is not None and self.stop_reason is StopReason.OVER:
                self.cut_off.add(effect)
            raise self.signal()

    def signal(self) -> EffectLogControl:
        """The control signal for how this attempt is ending."""
        where = f"run {self.run_id}, attempt {self.fence.attempt}"
        if self.stop_reason is StopReason.LOST:
            in_time = time.monotonic() < self.lease_until
            why = why_lost(
                self.runtime.lease, paused_for=self.paused_for, in_time=in_time, store=self._unrenewed
            )
            return LeaseLost(
                f"{where} no longer owns its run, so no effect starts and its result is not stored: {why}; "
                "another worker goes on with the run",
                run_id=self.run_id,
            )
        if self.stop_reason is StopReason.CANCELLED:
            return RunCancelling(f"{where}: the run is being cancelled", run_id=self.run_id)
        return AttemptOver(f"{where} takes no more effects: {self.stop_reason}", run_id=self.run_id)

    def lose(self) -> EffectLogControl:
        """Note that the store has refused this owner, and return the control signal to raise."""
        self.end(StopReason.LOST)
        return self.signal()

    def end(self, stop_reason: StopReason, reason: str = "", *, back_in: float = 0.0) -> None:
        """Begin to end. The first reason stands, except that a lost lease overrides every other.

        ``back_in``: seconds before a run that is given back may be claimed again.
        """
        with self._lock:
            if self.stop_reason is not None and not (
                stop_reason is StopReason.LOST and self.stop_reason is not StopReason.LOST
            ):
                return
            if stop_reason is StopReason.LOST:
                self._unrenewed = self.store_trouble()
            self.stop_reason = stop_reason
            self.reason = reason or str(stop_reason)
            self.back_in = back_in
            if self._stop_signal is not None:
                self._stop_signal.set()
        if stop_reason is not StopReason.OVER:
            self.interrupt(stop_reason)

    def wait_for_stop(self, seconds: float) -> None:
        """Block the calling thread for this long, or until the attempt begins to end."""
        with self._lock:
            if self.stop_reason is not None:
                return
            if self._stop_signal is None:
                self._stop_signal = threading.Event()
        self._stop_signal.wait(seconds)

    def refuse(self, reason: str, *, back_in: float = 0.0) -> None:
        """Release the run because this process can't go on with it, though nothing is wrong with the run."""
        self.refused = True
        self.end(StopReason.UNABLE, reason, back_in=back_in)

    def hold(self, key: str, reason: str) -> None:
        """End the attempt because this effect waits for a decision."""
        self.holds[key] = reason
        self.observer.held(key, reason)
        self.end(StopReason.HELD, f"effect {key!r}: {reason}")

    @property
    def lost(self) -> bool:
        """Its lease is lost."""
        return self.stop_reason is StopReason.LOST

    @property
    def released(self) -> bool:
        """The worker releases it."""
        return self.stop_reason is StopReason.RELEASED

    # --- time ----------------------------------------------------------------------------------

    def timer(self, seconds: float, callback: Callable[[], object]) -> PauseAwareTimer:
        """Call back after this many seconds in which this process got to run."""
        return PauseAwareTimer(seconds, callback, self.pause_credit_by_now, self.pause_credit)

    async def pause_credit_by_now(self) -> float:
        """As ``pause_credit``, once a standstill that ended this very moment has been noticed as well."""
        if self.notice_pause is not None:
            with contextlib.suppress(EffectLogError):
                await self.engine.read(self.notice_pause())
        return self.pause_credit

    # --- what is under way ---------------------------------------------------------------------

    def enter(self, key: str, *, is_async: bool) -> InFlight | None:
        """Reserve a key. Returns the call that holds it, or None if it is now ours."""
        self.called.add(key)
        with self._lock:
            other = self._in_flight.get(key)
            if other is None:
                self._in_flight[key] = InFlight(self._lock, is_async=is_async)
                self._calls += 1
            return other

    def leave(self, key: str) -> None:
        """Free a key, and wake who waits for it or for the attempt to become quiet."""
        with self._lock:
            mine = self._in_flight.pop(key)
            self._calls -= 1
            callbacks, self._quiet = (self._quiet, []) if self._calls == 0 else ([], self._quiet)
        mine.finish()
        for callback in callbacks:
            callback()

    def when_quiet(self, callback: Callable[[], None]) -> bool:
        """Call back once no effect call is under way; True if that is so already."""
        with self._lock:
            if self._calls == 0:
                return True
            self._quiet.append(callback)
            return False

    def cancel_requests(self) -> None:
        """Cancel the tasks of async effect calls under way."""
        with self._lock:
            calls = list(self._in_flight.values())
        for call in calls:
            call.cancel()

    @property
    def quiet(self) -> bool:
        """No effect call is under way."""
        return self._calls == 0

    def doing(self) -> str:
        """What this attempt is busy with, for people."""
        keys = list(self._in_flight)
        effects = ", ".join(
            map(repr, keys) if user_warnings.show_effect_keys else keys and [user_warnings.HIDDEN]
        )
        return f"task {self.task.name} (run {self.run_id}" + (f", effect {effects})" if effects else ")")

    # --- the journal ---------------------------------------------------------------------------

    def learn(self, effect: EffectRow | None) -> None:
        """Adopt a row as the store has it, unless a newer one is known."""
        with self._lock:
            known = None if effect is None else self.journal.get(effect.key)
            if effect is not None and (known is None or effect.version >= known.version):
                self._take_over(effect)

    def _take_over(self, effect: EffectRow) -> None:
        """An earlier owner's request that has returned meanwhile may have left only just now: it settles from here on."""
        known, self.journal[effect.key] = self.journal.get(effect.key), effect
        if known is not None and {*known.executing} - {*effect.executing, self.fence.attempt}:
            self._returned_at[effect.key] = time.monotonic()

    def relearn(self, key: str, effect: EffectRow | None) -> None:
        """Adopt the row with which the store refused a command: it is the newest, whatever was foreseen."""
        with self._lock:
            if effect is None:
                self.journal.pop(key, None)
            else:
                self._take_over(effect)

    def record(self, command: c.FinishEffect) -> EffectRow:
        """Hand an outcome to the engine and foresee what the store will hold; returns that row."""
        with self._lock:
            foreseen = self.journal[command.key]
            self._foreseen.now = time.time()
            note_outcome(self._foreseen, self.run.row, foreseen, command)
            self._returned_at[command.key] = time.monotonic()
            if command.outcome is c.RequestOutcome.COMPLETED:
                self._answered.add(command.key)
        self.post(command, self._recorded)
        self.observer.outcome(command)
        return foreseen

    def committed(self, command: c.FinishEffect, effect: EffectRow) -> None:
        """Adopt an outcome that was committed beside the engine, together with the effect's own writes."""
        self.learn(effect)
        with self._lock:
            self._returned_at[command.key] = time.monotonic()
            self._answered.add(command.key)
        self.observer.outcome(command)

    def post(
        self, command: c.FinishEffect, resolve: Callable[[list[c.Outcome] | None, BaseException | None], None]
    ) -> None:
        """Hand in an outcome; one that comes too late for the lease is evidence, and worth trying as long."""
        until = max(self.lease_until, time.monotonic() + self.runtime.lease)
        self.engine.post(command, until=until, resolve=resolve, chain=self.chain)

    def _recorded(self, outcomes: list[c.Outcome] | None, error: BaseException | None) -> None:
        if error is not None:
            logger.error(
                "effectlog: an outcome of run %s, attempt %s could not be recorded; the effect is in doubt: "
                "%s",
                self.run_id,
                self.fence.attempt,
                error,
                extra=self.extra,
            )
            self.end(StopReason.LOST, str(error))
            return
        for outcome in outcomes or ():
            if isinstance(outcome, c.EffectStored):
                self.learn(outcome.effect)
            if not isinstance(outcome, c.EffectStored) or outcome.late:
                self.end(StopReason.LOST)

    def settle_left(self, effect: EffectRow, settle: float, *, also_own: bool) -> float:
        """Seconds until requests made before must have shown at the destination.

        Requests of earlier attempts count from this attempt's begin, when their owner was gone;
        with ``also_own``, requests that this attempt made, or saw return, count from their return.
        """
        since = self._returned_at.get(effect.key) if also_own else None
        if effect.attempt != self.fence.attempt or any(n != self.fence.attempt for n in effect.executing):
            since = max(since or 0.0, self.began)
        return 0.0 if since is None else max(0.0, since + settle - time.monotonic())

    def warn_repeated(self, call: EffectCall) -> None:
        """Warn, once per key, that one attempt used a key twice."""
        if call.key in self._answered:
            self.warn(
                call.key,
                f"effect key {call.key!r} ({call.spec.name}) was used again in attempt {self.fence.attempt} "
                f"of run {self.run_id}: the recorded result is returned and nothing is sent. If these are "
                "two operations, put what tells them apart into the key",
            )
        self._answered.add(call.key)

    def warn(self, about: str, message: str) -> None:
        """Warn once about one thing, and log it."""
        with self._lock:
            if about in self._warned:
                return
            self._warned.add(about)
        logger.warning("effectlog: %s", message, extra=self.extra)
        warnings.warn(one_line(message), EffectLogWarning, stacklevel=users_level())
