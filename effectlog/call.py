"""One effect call inside an attempt, from journal to result, as steps that sync and async code share.

The order is the product: the *started* record is durable before the function is called, the outcome is with
the engine before the caller gets it, and nothing is sent twice but by the declared answer to doubt.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from typing import TYPE_CHECKING, Any

from effectlog import commands as c
from effectlog import doubt
from effectlog.attempt import Ending
from effectlog.context import Request
from effectlog.contract import Destination, Verdict
from effectlog.errors import (
    ConfigurationError,
    DecodingError,
    EffectHeld,
    EffectLogControl,
    EncodingError,
)
from effectlog.failure import declared_failure, describe
from effectlog.journal import Answer, answer
from effectlog.keys import operation_id
from effectlog.look_up import look_up
from effectlog.model import ErrorInfo
from effectlog.rows import RequestClock
from effectlog.steps import Commit, Invoke, Join, Sleep

if TYPE_CHECKING:
    from effectlog.attempt import Attempt
    from effectlog.rows import EffectRow
    from effectlog.spec import EffectCall
    from effectlog.steps import Steps

logger = logging.getLogger("effectlog")

IN_FLIGHT_BUDGET = 600.0
"""Seconds that answers of "another request is in flight" are waited out before the attempt is given back."""


def perform(attempt: Attempt, call: EffectCall) -> Steps:
    """Answer one effect call from the journal, or make it happen."""
    while True:
        attempt.check_open()
        other = attempt.enter(call.key, is_async=call.spec.is_async)
        if other is None:
            try:
                return (yield from _Call(attempt, call).run())
            finally:
                attempt.leave(call.key)
        yield Join(other, call.key)


class _Call:
    """The turn of one call at its key: at most one of these per key and attempt is under way."""

    def __init__(self, attempt: Attempt, call: EffectCall) -> None:
        self.attempt = attempt
        self.call = call
        self.spec = call.spec
        self.tries = 0
        self.waited_since: float | None = None
        self.asked = 0
        self.asking_since = time.monotonic()

    @property
    def effect(self) -> EffectRow | None:
        return self.attempt.journal.get(self.call.key)

    def run(self) -> Steps:
        while True:
            self.attempt.check_open()
            effect = self.effect
            match answer(effect, self.call):
                case Answer.REPLAY if effect is not None:
                    self.attempt.warn_repeated(self.call)
                    return self._replay(effect)
                case Answer.RERAISE if effect is not None and effect.error is not None:
                    raise declared_failure(effect.error, self.spec.final, self.attempt.run_id, self.call.key)
                case Answer.DOUBT if effect is not None:
                    if not (yield from self._answer_doubt(effect)):
                        continue
            yield from self._fit_lease()
            if not (yield from self._start()):
                continue
            done, value = yield from self._request()
            if done:
                return value

    # --- from the journal ----------------------------------------------------------------------

    def _replay(self, effect: EffectRow) -> Any:
        if effect.result is None:
            raise EncodingError(
                f"effect {self.call.key!r} of run {self.attempt.run_id} was completed, but its result could not be "
                f"stored: {effect.result_error}. It is not sent again; supply the value with "
                f"'effectlog resolve {self.attempt.run_id} {self.call.key} --applied JSON --by YOU'",
                path="result",
                type_name="",
            )
        try:
            return self.attempt.codec.decode(effect.result, self.spec.returns.value)
        except DecodingError as error:
            # Another process may know the class: the run goes back and no attempt is used.
            self.attempt.end(
                Ending.RELEASED,
                f"the recorded result of effect {self.call.key!r} can't be read here: {error}",
            )
            raise self.attempt.signal() from error

    def _answer_doubt(self, effect: EffectRow) -> Steps:
        """Deal with an earlier request without an outcome; True if another may be sent now."""
        settle = self.spec.destination.settle.total_seconds() if self.spec.destination else 0.0
        left = self.attempt.settle_left(effect, settle, also_own=False)
        match doubt.decide(effect, self.spec, self.attempt.engine.store.clock, settle_left=left):
            case doubt.Resend():
                logger.warning(
                    "effectlog: effect %r of run %s is in doubt and is sent again with operation id %s",
                    self.call.key,
                    self.attempt.run_id,
                    effect.operation_id,
                    extra={"run_id": self.attempt.run_id, "effect_key": self.call.key},
                )
                return True
            case doubt.Wait(seconds):
                yield Sleep(self.attempt, seconds)
            case doubt.Hold(reason):
                self._hold(reason)
            case doubt.LookUp():
                yield from look_up(self, effect)
        return False

    def _hold(self, reason: str) -> None:
        self.attempt.hold(self.call.key, reason)
        raise EffectHeld(
            f"effect {self.call.key!r} of run {self.attempt.run_id} is in doubt and waits for a decision: {reason}",
            effect_key=self.call.key,
        )

    # --- a request -----------------------------------------------------------------------------

    def _fit_lease(self) -> Steps:
        """Wait for a renewal where the effect's timeout does not fit what is left of the lease."""
        if self.spec.timeout is None:
            return
        # A timeout longer than the lease can never fit it: then a fresh lease is what can be had.
        needed = min(self.spec.timeout, self.attempt.lease / 2)
        while self.attempt.lease_until - time.monotonic() < needed:
            self.attempt.check_open()
            self.attempt.want_renewal()
            yield Sleep(self.attempt, 0.02)

    def _start(self) -> Steps:
        """Make the *started* record durable; False if the journal turned out to hold something new."""
        effect = self.effect
        try:
            outcome = yield Commit(self.attempt, self._start_command(effect))
        except BaseException as error:
            self._not_called(error)
            raise
        if isinstance(outcome, c.EffectStored):
            self.attempt.learn(outcome.effect)
            return True
        if isinstance(outcome, c.Refused):
            self.attempt.learn(outcome.effect)
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
            value = yield Invoke(
                self.request_scope(effect),
                self.call.function,
                self.call.args,
                self.call.kwargs,
                self.spec.timeout,
                self.spec.name,
            )
        except BaseException as error:
            return (yield from self._after_error(error))
        return True, self._complete(value)

    def _check_still_allowed(self, effect: EffectRow) -> None:
        """The last look before the call: the process may have been stopped since the record was written."""
        self.attempt.check_open()
        resending = effect.open_requests > 1
        if resending and doubt.past_horizon(effect, self.spec.destination, self.attempt.engine.store.clock):
            self._hold("the send horizon passed right before the call")

    def _finish(self, outcome: c.RequestOutcome, error: BaseException | ErrorInfo, **more: Any) -> None:
        info = error if isinstance(error, ErrorInfo) else describe(error)
        self.attempt.record(c.FinishEffect(self.attempt.fence, self.call.key, outcome, error=info, **more))

    def _not_called(self, error: BaseException) -> None:
        """Record that a request which may have been announced was never made."""
        if self.effect is not None and self.attempt.fence.attempt in self.effect.executing:
            self._finish(c.RequestOutcome.NOT_APPLIED, error)
            return
        # The *started* record may or may not have landed; the store ignores this where it has not.
        command = c.FinishEffect(
            self.attempt.fence, self.call.key, c.RequestOutcome.NOT_APPLIED, error=describe(error)
        )
        try:
            self.attempt.post(command, lambda *_: None)
        except Exception:
            logger.debug("effectlog: the engine is closed; nothing was called", exc_info=True)

    def _complete(self, value: Any) -> Any:
        if inspect.isawaitable(value):
            self._refuse_awaitable(value)
        try:
            data = self.attempt.codec.encode(value)
            if len(data) > self.attempt.max_value_bytes:
                raise EncodingError(
                    f"the result takes {len(data)} bytes and {self.attempt.max_value_bytes} are allowed; store it "
                    f"elsewhere and return its address, or raise EffectLog(max_value_bytes=)",
                    path="result",
                    type_name=type(value).__qualname__,
                )
        except EncodingError as error:
            self._succeed(None, str(error))
            raise
        self._succeed(data, None)
        # First execution and replay must not differ, so the caller gets what a replay would get.
        return self.attempt.codec.decode(data, self.spec.returns.value)

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
        error = ConfigurationError(
            f"effect {self.spec.name} is a sync function and returned an awaitable, which can't be a result; "
            f"declare it with 'async def' and await inside"
        )
        if inspect.iscoroutine(value):
            value.close()
            self._finish(c.RequestOutcome.NOT_APPLIED, error)  # A coroutine that never ran did nothing.
        else:
            self._finish(c.RequestOutcome.UNKNOWN, error)
        raise error

    # --- an exception --------------------------------------------------------------------------

    def _after_error(self, error: BaseException) -> Steps:
        verdict = self._judge(error)
        if verdict is Verdict.APPLIED:
            return True, self._complete_existing(error)
        if verdict is Verdict.IN_FLIGHT:
            return (yield from self._wait_out(error))
        if isinstance(error, self.spec.final):
            self._finish(c.RequestOutcome.FINAL, error)
            raise declared_failure(
                describe(error), self.spec.final, self.attempt.run_id, self.call.key
            ) from error
        if verdict is Verdict.NOT_APPLIED or isinstance(error, self.spec.not_applied):
            rule = self.spec.destination.failure_rule if self.spec.destination else None
            self._finish(c.RequestOutcome.NOT_APPLIED, error, new_operation=rule == "new_key")
        else:
            self._finish(c.RequestOutcome.UNKNOWN, error)
        if verdict is Verdict.KEY_MISUSED:
            self._hold(f"the destination has this key with other parameters: {error}")
        if not self._tries_again(error):
            raise error
        assert self.spec.retry is not None  # noqa: S101 - _tries_again asked
        yield Sleep(self.attempt, self.spec.retry.delay_after(self.tries))
        return False, None

    def _judge(self, error: BaseException) -> Verdict:
        destination: Destination | None = self.spec.destination
        if destination is None or not isinstance(error, Exception):
            return Verdict.UNKNOWN
        return destination.classify(error)

    def _complete_existing(self, error: BaseException) -> Any:
        """The error proves that the operation exists: that is success, with what the error names as the value."""
        assert self.spec.destination is not None  # noqa: S101 - its classifier spoke
        logger.info("effectlog: effect %r exists at the destination: %s", self.call.key, error)
        return self._complete(self.spec.destination.existing(error))

    def _wait_out(self, error: BaseException) -> Steps:
        self._finish(c.RequestOutcome.UNKNOWN, error)
        assert self.spec.destination is not None  # noqa: S101 - its classifier spoke
        now = time.monotonic()
        self.waited_since = self.waited_since or now
        if now - self.waited_since > IN_FLIGHT_BUDGET:
            self.attempt.end(Ending.RELEASED, f"effect {self.call.key!r} is still in flight: {error}")
            raise self.attempt.signal() from error
        yield Sleep(self.attempt, self.spec.destination.in_flight_wait.total_seconds())
        return False, None

    def _tries_again(self, error: BaseException) -> bool:
        retry = self.spec.retry
        if retry is None or not isinstance(error, Exception) or isinstance(error, EffectLogControl):
            return False
        if isinstance(error, asyncio.CancelledError) or self.attempt.ending is not None:
            return False
        return not retry.ends_after_error(self.tries) and not isinstance(error, retry.give_up_on)
