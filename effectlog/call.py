"""One effect call inside an attempt, from journal to result, as steps that sync and async code share.

The order is the product: the *started* record is durable before the function is called, the outcome is with
the engine before the caller gets it, and nothing is sent twice but by the declared answer to doubt.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import time
from typing import TYPE_CHECKING, Any, NoReturn

from effectlog import commands as c
from effectlog import doubt
from effectlog.attempt import Ending
from effectlog.checks import fitting
from effectlog.context import Request
from effectlog.errors import (
    EffectHeld,
    EffectLogError,
    EncodingError,
    StoreError,
)
from effectlog.failure import declared_failure, describe
from effectlog.journal import Answer, answer
from effectlog.keys import operation_id
from effectlog.lease import trusted_until
from effectlog.look_up import look_up
from effectlog.model import ErrorInfo
from effectlog.outlasting import check_task
from effectlog.replay import replay
from effectlog.request_error import after_error, awaitable_error
from effectlog.rows import RequestClock
from effectlog.steps import Commit, Invoke, Join, Reread, Sleep, block, drive
from effectlog.transactional import InvokeWithin, after_rollback, check_fits

if TYPE_CHECKING:
    from effectlog.attempt import Attempt
    from effectlog.rows import EffectRow
    from effectlog.spec import EffectCall
    from effectlog.steps import Steps

logger = logging.getLogger("effectlog")


def make(attempt: Attempt, call: EffectCall) -> Any:
    """Make one effect call: the result of a sync one, the coroutine of an async one."""
    in_time = attempt.ending is None
    if not call.spec.is_async:
        return block(perform(attempt, call, in_time=in_time))
    coroutine = drive(perform(attempt, call, in_time=in_time))
    attempt.unawaited[id(call)] = (call.spec.name, coroutine)  # Until somebody awaits it.
    return coroutine


def perform(attempt: Attempt, call: EffectCall, *, in_time: bool) -> Steps:
    """Answer one effect call from the journal, or make it happen."""
    attempt.unawaited.pop(id(call), None)
    while True:
        other = attempt.enter(call.key, is_async=call.spec.is_async)
        if other is None:
            try:
                return (yield from Turn(attempt, call, in_time=in_time).run())
            finally:
                attempt.leave(call.key)
        yield Join(other, call.key)


class Turn:
    """The turn of one call at its key: at most one of these per key and attempt is under way."""

    def __init__(self, attempt: Attempt, call: EffectCall, *, in_time: bool) -> None:
        self.attempt = attempt
        self.in_time = in_time
        """The call was made before the attempt began to end."""
        self.call = call
        self.spec = call.spec
        self.tries = 0
        self.exists = False
        """The destination has said that it has the operation."""
        self.in_flight = 0
        self.waiting_since: float | None = None
        self.asked = 0
        self.unknown_since: float | None = None
        self.look_up_error = ""
        """What the last look-up raised, if it did."""
        self.dead_since: float | None = None

    @property
    def extra(self) -> dict[str, Any]:
        """What a log line about this call carries beside its text."""
        return self.attempt.extra | {"effect_key": self.call.key}

    @property
    def effect(self) -> EffectRow | None:
        return self.attempt.journal.get(self.call.key)

    def run(self) -> Steps:
        while True:
            self.attempt.check_open(self.spec.name if self.in_time else None)
            effect = self.effect
            match answer(effect, self.call):
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

    def _answer_doubt(self, effect: EffectRow) -> Steps:
        """Deal with an earlier request without an outcome; True if another may be sent now."""
        contract = doubt.contract_of(effect, self.spec)
        settle = contract.settle.total_seconds() if contract else 0.0
        left = self.attempt.settle_left(effect, settle, also_own=False)
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

    def _see_news(self) -> Steps:
        """After a wait in doubt: somebody may have decided meanwhile, or an earlier owner may have woken up."""
        if self.effect is not None and self.effect.unsettled:
            with contextlib.suppress(StoreError):  # Nothing is sent without the store's consent.
                self.attempt.learn((yield Reread(self.attempt, self.call.key)))

    def hold(self, reason: str) -> NoReturn:
        """Leave the effect to a decision and the attempt by a signal."""
        self.attempt.hold(self.call.key, reason)
        raise EffectHeld(
            f"effect {self.call.key!r} of run {self.attempt.run_id} is in doubt and waits for a decision: {reason}",
            effect_key=self.call.key,
        )

    # --- a request -----------------------------------------------------------------------------

    def _fit_lease(self, timeout: float) -> Steps:
        """Wait for a renewal where the effect's timeout does not fit what is left of the lease."""
        attempt = self.attempt
        fresh = trusted_until(0.0, attempt.lease)
        # One that no lease can hold gets most of one, without asking for a renewal at every call.
        needed = timeout if timeout <= fresh else 0.8 * fresh
        seen = attempt.lease_until
        while attempt.lease_until - time.monotonic() < needed and attempt.lease_until == seen:
            attempt.check_open()
            attempt.want_renewal()
            yield Sleep(attempt, 0.02)

    def _start(self) -> Steps:
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
                return False
            cancelling = outcome.reason is c.Refusal.CANCELLING
            self.attempt.end(Ending.CANCELLED if cancelling else Ending.LOST)
        raise self.attempt.signal()

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
            fingerprints=self.call.fingerprints,
            policy=self.spec.policy,
            clock=RequestClock(clock.wall(), clock.boot(), clock.identity),
            destination=self.spec.destination_json,
        )

    def request_scope(self, effect: EffectRow) -> Request:
        """What the effect's function, and a look-up, may know of the request."""
        return Request(
            self.attempt, self.call.key, self.spec.destination, effect.first_request, effect.operation_id
        )

    def _request(self) -> Steps:
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

    def finish(self, outcome: c.RequestOutcome, error: BaseException | ErrorInfo, **more: Any) -> None:
        info = error if isinstance(error, ErrorInfo) else describe(error)
        self.attempt.record(c.FinishEffect(self.attempt.fence, self.call.key, outcome, error=info, **more))

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

    def complete(self, value: Any) -> Any:
        """Record what the function returned; gives what a replay would give, so that the two can't differ."""
        if inspect.isawaitable(value):
            self._refuse_awaitable(value)
        try:
            data, copy = self.stored_form(value)
        except BaseException as error:
            # The request was made and has returned: whatever is wrong with its value, it is not made again.
            problem = describe(error)
            if isinstance(error, EncodingError):
                error.effect_key = self.call.key
            self._succeed(
                None,
                problem.message
                if isinstance(error, EffectLogError)
                else f"{problem.type}: {problem.message}",
            )
            raise
        self._succeed(data, None)
        return copy

    def stored_form(self, value: Any) -> tuple[bytes, Any]:
        """What is stored of a result, and what a replay gives."""
        encoded = self.attempt.codec.encode(value)
        data = fitting(encoded, self.attempt.max_value_bytes, "the result takes", path="result", value=value)
        return data, self.attempt.codec.decode(data, self.spec.returns.value)

    def _succeed(self, data: bytes | None, problem: str | None) -> None:
        self.attempt.record(
            c.FinishEffect(
                self.attempt.fence,
                self.call.key,
                c.RequestOutcome.COMPLETED,
                result=data,
                result_error=problem,
            )
        )

    def _refuse_awaitable(self, value: Any) -> None:
        error = awaitable_error(self.spec.name, value)
        # The coroutine never ran, but the function that made it did.
        self.finish(c.RequestOutcome.UNKNOWN, error)
        raise error
