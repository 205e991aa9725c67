"""One attempt as a span, its requests as spans inside, and both as counts.

The attempt's span is current in the task that executes it and in everything started from there; nothing is
ever detached, because that task's context ends with the attempt. A request's span is current while the
effect's function runs, and what was current before comes back only where the context is still the same one.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import time
from typing import TYPE_CHECKING

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN, SpanKind

from effectlog.error_info import describe as described
from effectlog.errors import EffectLogControl
from effectlog.model import AttemptOutcome, ErrorInfo, RunState
from effectlog.store import commands as c
from effectlog.telemetry import attributes, spans, trace_context
from effectlog.telemetry.guard import harmless
from effectlog.telemetry.meters import meters
from effectlog.telemetry.observer import NOTHING, Observer
from effectlog.telemetry.settings import settings, tracer_provider

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

    from opentelemetry.trace import Span

    from effectlog.decorators.spec import EffectCall
    from effectlog.store.rows import AttemptRow, EffectRow
    from effectlog.telemetry.observer import ObservedAttempt

_FAILED = (AttemptOutcome.ERROR, AttemptOutcome.TIMED_OUT)
_HANDED_ON = (AttemptOutcome.EXPIRED, AttemptOutcome.RELEASED)
_turn: contextvars.ContextVar[object] = contextvars.ContextVar("effectlog_request_turn")


class Recorder(Observer):
    """Watches one attempt for the providers that are set."""

    __slots__ = ("_attempt", "_began", "_meters", "_outcome", "_requests", "_span", "trace")

    def __init__(self, attempt: ObservedAttempt) -> None:
        self._attempt = attempt
        self._began = time.monotonic()
        self._meters = meters()
        self._requests: dict[str, _Request] = {}
        self._outcome: str | None = None
        self._span: Span = INVALID_SPAN
        self.trace: str | None = attempt.run.trace
        if tracer_provider() is not None:
            self._begin_span()
        self._count_claim()

    def _begin_span(self) -> None:
        run = self._attempt.run
        *earlier, _ = run.attempts
        made_in = trace_context.unpack(run.trace)
        parent = trace.set_span_in_context(INVALID_SPAN, made_in) if settings.own_traces else made_in
        self._span = spans.tracer().start_span(
            f"attempt {self._attempt.task.name}",
            parent,
            SpanKind.CONSUMER,
            attributes.of_attempt(self._attempt),
            spans.links_of(run, earlier),
        )
        inside = trace.set_span_in_context(self._span, made_in)
        otel.attach(inside)
        self.trace = trace_context.pack(inside)
        for attempt in earlier:
            self._tell_of(attempt)
        self._keep_trace()

    def _tell_of(self, earlier: AttemptRow) -> None:
        """An attempt whose process was killed has left no span, so this one says that there was one."""
        if earlier.outcome is AttemptOutcome.EXPIRED:
            reason = earlier.error.message if earlier.error else ""
            self._span.add_event("expired", {"effectlog.attempt": earlier.number, "effectlog.reason": reason})

    def _keep_trace(self) -> None:
        if self.trace is not None and self._span.is_recording():
            self._attempt.keep_trace(self.trace)

    def _count_claim(self) -> None:
        found, run = self._meters, self._attempt.run
        if found is None:
            return
        *earlier, now = run.attempts
        last = earlier[-1] if earlier else None
        ready = max(run.row.due_at, last.ended_at or 0.0) if last else run.row.due_at
        found.measure("queue.wait", max(0.0, now.started_at - ready), task=run.row.task)
        if last is None or last.outcome is None or last.ended_at is None:
            return
        if last.outcome is AttemptOutcome.RELEASED:
            found.count("takeovers", task=run.row.task, reason="released")
        if last.outcome in _HANDED_ON:
            took = max(0.0, now.started_at - last.ended_at)
            found.measure("takeover.duration", took, task=run.row.task, outcome=last.outcome.value)

    # --- requests ------------------------------------------------------------------------------

    @harmless(NOTHING)
    def request(self, call: EffectCall, effect: EffectRow) -> AbstractContextManager[None]:
        request = _Request(self._attempt, call, effect, traced=self._span is not INVALID_SPAN)
        self._requests[call.key] = request
        self._count("requests", effect, request.destination)
        return request

    @harmless(None)
    def outcome(self, command: c.FinishEffect) -> None:
        request = self._requests.pop(command.key, None)
        if request is None:
            return
        request.end(command.outcome.value, command.error)
        effect = request.effect
        if self._meters is None:
            return
        names = {"effect": effect.name, "destination": request.destination}
        self._meters.measure("request.duration", request.took, outcome=command.outcome.value, **names)
        if command.outcome is c.RequestOutcome.COMPLETED and not self._attempt.lost:
            self._meters.count("effects.completed", **names)

    @harmless(None)
    def replayed(self, effect: EffectRow) -> None:
        self._event("replayed", effect, **{"effectlog.replayed": True})
        self._count("replays", effect)

    @harmless(None)
    def resent(self, effect: EffectRow) -> None:
        self._event("resent", effect)
        self._count("resends", effect, json.loads(effect.destination)["name"] if effect.destination else "")

    @harmless(None)
    def looked_up(self, effect: EffectRow, answer: object) -> None:
        self._event("looked up", effect, **{"effectlog.outcome": type(answer).__name__})

    @harmless(None)
    def held(self, key: str, reason: str) -> None:
        self._span.add_event("held", {"effectlog.reason": reason, **attributes.of_key(key)})

    def _event(self, name: str, effect: EffectRow, **more: str | bool) -> None:
        if self._span.is_recording():
            self._span.add_event(name, {**attributes.of_effect(effect), **more})

    def _count(self, name: str, effect: EffectRow, destination: str = "") -> None:
        if self._meters is not None:
            self._meters.count(name, effect=effect.name, destination=destination)

    # --- the end -------------------------------------------------------------------------------

    @harmless(None)
    def ended(self, command: c.EndAttempt, outcome: c.Outcome) -> None:
        if not isinstance(outcome, c.RunMoved):
            return
        held = outcome.state is RunState.HELD
        self._outcome = AttemptOutcome.HELD.value if held else command.outcome.value
        self._span.set_attribute("effectlog.run.state", outcome.state.value)
        if command.error is not None and command.outcome in _FAILED:
            spans.describe(self._span, command.error)
            if not held:  # Then it waits for a decision, and the exception is only why.
                spans.fail(self._span, command.error.type, command.error.message)
        self._count_end(outcome.state)

    def _count_end(self, state: RunState) -> None:
        task = self._attempt.task.name
        if self._meters is None:
            return
        self._meters.count("attempts", task=task, outcome=self._outcome or "")
        if state is RunState.HELD:
            self._meters.count("holds", task=task)
        if state is RunState.FAILED:
            self._meters.count("dead_letters", task=task)

    @harmless(None)
    def over(self) -> None:
        outcome = self._outcome or self._unrecorded()
        self._span.set_attribute("effectlog.outcome", outcome)
        while self._requests:  # What returns after this is evidence, and nobody's span any more.
            self._requests.popitem()[1].end(c.RequestOutcome.UNKNOWN.value, None)
        self._span.end()
        if self._meters is not None:
            took = time.monotonic() - self._began
            self._meters.measure("attempt.duration", took, task=self._attempt.task.name, outcome=outcome)

    def _unrecorded(self) -> str:
        """How an attempt ended whose end was not recorded here: lost, released, or the store was away."""
        if self._attempt.released:
            return "released"
        if not self._attempt.lost:
            spans.fail(self._span, "unrecorded", "the attempt's end could not be recorded")
            return "unrecorded"
        spans.fail(self._span, "effectlog.LeaseLost", self._attempt.reason)
        if self._meters is not None:
            self._meters.count("lease.losses", task=self._attempt.task.name)
        return "lost"


class _Request:
    """One request: its span is current inside ``with``, and ends when its outcome goes to the store."""

    def __init__(
        self, attempt: ObservedAttempt, call: EffectCall, effect: EffectRow, *, traced: bool
    ) -> None:
        self._attempt = attempt
        self._call = call
        self.effect = effect
        self.destination = call.spec.destination.name if call.spec.destination else ""
        self.took = 0.0
        self._traced = traced
        self._span: Span = INVALID_SPAN
        self._before: otel.Context | None = None
        self._token: contextvars.Token[object] | None = None
        self._error: BaseException | None = None
        self._began = time.monotonic()

    def __enter__(self) -> None:
        if self._traced:
            self._enter_span()
        self._began = time.monotonic()

    @harmless(None)
    def _enter_span(self) -> None:
        self._span = spans.tracer().start_span(
            f"effect {self.effect.name}",
            kind=SpanKind.CLIENT,
            attributes=attributes.of_request(self._attempt, self._call, self.effect),
        )
        self._before = otel.get_current()
        self._token = _turn.set(self)
        otel.attach(trace.set_span_in_context(self._span))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.took = time.monotonic() - self._began
        self._error = error
        self._leave_span()

    @harmless(None)
    def _leave_span(self) -> None:
        if self._token is None or self._before is None:
            return
        # A coroutine that is thrown away may be closed in any context: what is current there is not ours.
        with contextlib.suppress(ValueError):
            _turn.reset(self._token)
            otel.attach(self._before)
        self._token = None

    @harmless(None)
    def end(self, outcome: str, error: ErrorInfo | None) -> None:
        span = self._span
        span.set_attribute("effectlog.outcome", outcome)
        raised = self._error
        # A cancellation or a control signal is how an attempt ends, not how a destination failed.
        if isinstance(raised, Exception) and not isinstance(raised, EffectLogControl):
            error = described(raised)
            spans.describe(span, error)
        elif raised is not None:
            error = None
        if error is not None:
            spans.fail(span, error.type, error.message)
        span.end()
