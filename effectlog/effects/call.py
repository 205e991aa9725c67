"""One effect call inside an attempt, from journal to result, as operations that sync and async code share.

The order is the product: the *started* record is durable before the function is called, the outcome is with
the engine before the caller gets it, and nothing is sent twice but by the declared answer to doubt.
"""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

from effectlog.attempt.attempt import trusted_until
from effectlog.attempt.stop_reason import StopReason
from effectlog.decorators.retry_horizon import check_task
from effectlog.effects import doubt
from effectlog.effects.call_state import CallState
from effectlog.effects.driver import Commit, Invoke, Join, Reread, Sleep, run_async, run_blocking
from effectlog.effects.journal import Answer, answer
from effectlog.effects.look_up import look_up
from effectlog.effects.replay import replay
from effectlog.effects.request_errors import after_error
from effectlog.effects.transactional import InvokeWithin, after_rollback, check_fits
from effectlog.error_info import declared_failure, describe
from effectlog.errors import StoreError
from effectlog.keys import OtherSecretError, operation_id
from effectlog.model import ErrorInfo
from effectlog.store import commands as c
from effectlog.store.rows import RequestClock

if TYPE_CHECKING:
    from effectlog.attempt.attempt import Attempt
    from effectlog.decorators.spec import EffectCall
    from effectlog.effects.driver import Operations
    from effectlog.store.rows import EffectRow

logger = logging.getLogger("effectlog")


def make(attempt: Attempt, call: EffectCall) -> Any:
    """Make one effect call: the result of a sync one, the coroutine of an async one."""
    in_time = attempt.stop_reason is None
    if not call.spec.is_async:
        return run_blocking(perform(attempt, call, in_time=in_time))
    coroutine = run_async(perform(attempt, call, in_time=in_time))
    attempt.unawaited[id(call)] = (call.spec.name, coroutine)  # Until somebody awaits it.
    return coroutine


def perform(attempt: Attempt, call: EffectCall, *, in_time: bool) -> Operations:
    """Answer one effect call from the journal, or make it happen."""
    attempt.unawaited.pop(id(call), None)
    while True:
        other = attempt.enter(call.key, is_async=call.spec.is_async)
        if other is None:
            try:
                return (yield from Call(attempt, call, in_time=in_time).run())
            finally:
                attempt.leave(call.key)
        yield Join(other, call.key)


class Call(CallState):
    """The flow of one call: what the journal answers, a request, what its outcome means."""

    def run(self) -> Operations:
        while True:
            self.attempt.check_open(self.spec.name if self.in_time else None)
            effect = self.effect
            match self._answer(effect):
                case Answer.REPLAY if effect is not None:
                    self.attempt.warn_repeated(self.call)
                    self.attempt.observer.replayed(effect)
                    return replay(self.attempt, self.call, effect)
                case Answer.RERAISE if effect is not None:
                    error = effect.error or ErrorInfo("", "it failed for good")
                    self.attempt.observer.replayed(effect)
                    raise declared_failure(error, self.spec.final, self.attempt.run_id, self.call.key)
                case Answer.DOUBT if effect is not None:
                    if not (yield from self._answer_doubt(effect)):
                        yield from self._see_news()
                        continue
            if self.spec.destination is not None:
                check_task(self.attempt.task, self.spec)
            if self.spec.transactional:
                check_fits(self.spec, self.attempt.engine.store)
            if self.spec.timeout is not None:
                yield from self._fit_lease(self.spec.timeout)
            if not (yield from self._start()):
                continue
            done, value = yield from self._request()
            if done:
                return value

    def _answer(self, effect: EffectRow | None) -> Answer:
        try:
            return answer(effect, self.call, self.attempt.runtime.seals)
        except OtherSecretError as error:
            # Another process may have that secret: the run goes back and no attempt is used.
            self.attempt.refuse(f"effect {self.call.key!r} can't be compared with its record: {error}")
            raise self.attempt.signal() from error

    def _answer_doubt(self, effect: EffectRow) -> Operations:
        """Deal with an earlier request without an outcome; True if another may be sent now."""
        left = self.attempt.settle_left(effect, self.settle(effect), also_own=False)
        match doubt.decide(effect, self.spec, self.attempt.engine.store.clock, settle_left=left):
            case doubt.Resend():
                logger.warning(
                    "effectlog: effect %r of run %s is in doubt and is sent again with operation id %s",
                    self.call.key,
                    self.attempt.run_id,
                    effect.operation_id,
                    extra=self.extra,
                )
                self.attempt.observer.resent(effect)
                return True
            case doubt.Wait(seconds):
                yield Sleep(self.attempt, seconds)
            case doubt.Hold(reason):
                self.hold(reason)
            case doubt.LookUp():
                yield from look_up(self, effect)
        return False

    def _see_news(self) -> Operations:
        """Reread after a wait in doubt: somebody may have decided, or an earlier owner may have woken up."""
        if self.effect is not None and self.effect.unsettled:
            with contextlib.suppress(StoreError):  # Nothing is sent without the store's consent.
                self.attempt.learn((yield Reread(self.attempt, self.call.key)))

    # --- a request -----------------------------------------------------------------------------

    def _fit_lease(self, timeout: float) -> Operations:
        """Wait for a renewal where the effect's timeout does not fit what is left of the lease."""
        attempt = self.attempt
        fresh = trusted_until(0.0, attempt.runtime.lease)
        # One that no lease can hold gets most of one, without asking for a renewal at every call.
        needed = timeout if timeout <= fresh else 0.8 * fresh
        seen = attempt.lease_until
        while attempt.lease_until - time.monotonic() < needed and attempt.lease_until == seen:
            attempt.check_open()
            attempt.want_renewal()
            yield Sleep(attempt, 0.02)

    def _start(self) -> Operations:
        """Make the *started* record durable; False if the journal turned out to hold something new."""
        effect = self.effect
        try:
            outcome = yield Commit(self.attempt, self._start_command(effect))
        except BaseException as error:
            self._not_called(error)
            if isinstance(error, StoreError):
                # Whatever the body makes of it, it must not go on as if the effect had been tried and failed.
                self.attempt.refuse(f"effect {self.call.key!r} could not be recorded as started: {error}")
            raise
        if isinstance(outcome, c.EffectStored):
            self.attempt.learn(outcome.effect)
            return True
        if isinstance(outcome, c.Refused):
            self.attempt.relearn(self.call.key, outcome.effect)
            if outcome.reason is c.Refusal.CHANGED:
                self._take_back()
                return False
            cancelling = outcome.reason is c.Refusal.CANCELLING
            self.attempt.end(StopReason.CANCELLED if cancelling else StopReason.LOST)
        raise self.attempt.signal()

    def _take_back(self) -> None:
        """Record that a request whose *started* record landed without an answer was never made: else it is a doubt."""
        effect = self.effect
        if effect is not None and effect.unsettled and self.attempt.fence.attempt in effect.executing:
            self.finish(
                c.RequestOutcome.NOT_MADE, ErrorInfo("", "the answer to its *started* record was lost")
            )

    def _start_command(self, effect: EffectRow | None) -> c.StartEffect:
        generation = effect.generation if effect else 0
        clock = self.attempt.engine.store.clock
        return c.StartEffect(
            self.attempt.fence,
            self.call.key,
            seen=effect.version if effect else 0,
            name=self.spec.name,
            operation_id=operation_id(self.attempt.run_id, self.call.key, generation),
            generation=generation,
            fingerprints=self.attempt.runtime.seals.seal(self.call.fingerprints, self.attempt.run_id),
            policy=self.spec.policy,
            clock=RequestClock(clock.wall(), clock.boot(), clock.identity),
            destination=self.spec.destination_json,
        )

    def _request(self) -> Operations:
        """Call the function once; (True, result), or (False, None) to look at the journal again."""
        effect = self.effect
        assert effect is not None  # noqa: S101 - it was started just now
        try:
            self._check_still_allowed(effect)
        except BaseException as error:
            self._not_called(error)
            raise
        self.tries += 1
        try:
            with self.attempt.observer.request(self.call, effect):
                invoke = Invoke(
                    self.attempt,
                    self.request_scope(effect),
                    self.call.function,
                    self.call.args,
                    self.call.kwargs,
                    self.spec.timeout,
                    self.spec.name,
                )
                value = yield InvokeWithin(self, invoke) if self.spec.transactional else invoke
        except BaseException as error:
            if self.spec.transactional:
                return (yield from after_rollback(self, error))
            return (yield from after_error(self, error))
        return True, value if self.spec.transactional else self.complete(value)

    def _check_still_allowed(self, effect: EffectRow) -> None:
        """The last look before the call: the process may have been stopped since the record was written."""
        self.attempt.check_open(self.spec.name if self.in_time else None)
        resending = effect.open_requests > 1
        if resending and doubt.past_horizon(
            effect, doubt.contract_of(effect, self.spec), self.attempt.engine.store.clock
        ):
            self.hold("the send horizon passed right before the call")

    def _not_called(self, error: BaseException) -> None:
        """Record that a request which may have been announced was never made."""
        attempt, nothing = self.attempt, c.RequestOutcome.NOT_MADE
        command = c.FinishEffect(attempt.fence, self.call.key, nothing, error=describe(error))
        if self.effect is not None and attempt.fence.attempt in self.effect.executing:
            attempt.record(command)
            return
        # The *started* record may or may not have landed; the store ignores this where it has not.
        try:
            attempt.post(command, lambda *_: None)
        except Exception:
            logger.debug("effectlog: the engine is closed; nothing was called", exc_info=True)
