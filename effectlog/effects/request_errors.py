"""What an exception of a request means for its effect: success in disguise, wait, give up, retry, or doubt.

Whatever it means is recorded before anything follows. The invariant: only a proof makes a request
"did nothing"; an exception without one leaves the effect in doubt.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from effectlog.attempt.stop_reason import StopReason
from effectlog.clients.retry_after import pause_asked_by
from effectlog.codec import convert
from effectlog.contract import Verdict
from effectlog.effects import doubt
from effectlog.effects.driver import Sleep
from effectlog.error_info import declared_failure, describe
from effectlog.errors import DecodingError, EffectLogControl
from effectlog.keys import shown
from effectlog.model import Policy
from effectlog.store import commands as c

if TYPE_CHECKING:
    from effectlog.effects.call_state import CallState
    from effectlog.effects.driver import Operations

logger = logging.getLogger("effectlog")

IN_FLIGHT_BUDGET = 120.0
"""Seconds that answers of "another request is in flight" are waited out before the attempt is given back."""


def after_error(state: CallState, error: BaseException) -> Operations:
    """Record what the exception says: (True, value) for success, (False, None) to look again, or raise."""
    verdict = _judge(state, error)
    if verdict is Verdict.APPLIED:
        return _take_existing(state, error)
    if verdict is Verdict.IN_FLIGHT:
        yield from _wait_out(state, error)
        return False, None
    if verdict is Verdict.KEY_MISUSED:
        state.finish(c.RequestOutcome.UNKNOWN, error)
        state.hold(_misused(state, error))
    if isinstance(error, state.spec.final):
        state.finish(c.RequestOutcome.FINAL, error)
        raise declared_failure(
            describe(error), state.spec.final, state.attempt.run_id, state.call.key
        ) from error
    if verdict is Verdict.NOT_APPLIED or isinstance(error, state.spec.not_applied):
        rule = state.spec.destination.failure_rule if state.spec.destination else None
        state.finish(c.RequestOutcome.NOT_APPLIED, error, new_operation=rule == "new_key")
    else:
        state.finish(c.RequestOutcome.UNKNOWN, error)
    yield from _before_next_try(state, error)
    return False, None


def _judge(state: CallState, error: BaseException) -> Verdict:
    destination = state.spec.destination
    if destination is None or not isinstance(error, Exception):
        return Verdict.UNKNOWN
    try:
        verdict = destination.classify(error)
    except Exception:
        logger.exception(
            "effectlog: the classifier of %s failed, so the error tells nothing", destination.name
        )
        return Verdict.UNKNOWN
    return verdict if isinstance(verdict, Verdict) else Verdict.UNKNOWN


def _take_existing(state: CallState, error: BaseException) -> tuple[bool, Any]:
    """The error proves that the operation exists: success, with what it names or what a look-up finds."""
    logger.info(
        "effectlog: effect %r exists at the destination: %s", state.call.key, error, extra=state.extra
    )
    state.exists = True
    value = _named_by(state, error)
    if value is not None and _fits(state, value):
        return True, state.complete(value)
    if state.spec.look_up is None and _fits(state, None):
        return True, state.complete(None)
    state.finish(c.RequestOutcome.UNKNOWN, error)
    if state.spec.look_up is None:
        state.hold(
            f"the destination has it already ({error}), and what it says of it ({value!r}) can't be the "
            "declared result; resolve it with the value, or give the effect a look-up"
        )
    return False, None


def _named_by(state: CallState, error: BaseException) -> Any:
    destination = state.spec.destination
    assert destination is not None  # noqa: S101 - its classifier spoke
    try:
        return destination.existing(error)
    except Exception:
        logger.exception("effectlog: existing= of %s failed, so the error names nothing", destination.name)
        return None


def _fits(state: CallState, value: Any) -> bool:
    try:
        convert(value, state.spec.returns.value)
    except DecodingError:
        return False
    return True


def _wait_out(state: CallState, error: BaseException) -> Operations:
    """Another request with this key is being executed over there: wait, using no attempt and no try."""
    state.finish(c.RequestOutcome.UNKNOWN, error)
    destination = state.spec.destination
    assert destination is not None  # noqa: S101 - its classifier spoke
    state.tries -= 1
    state.in_flight += 1
    grown = doubt.in_flight_again(state.in_flight, destination.in_flight_wait.total_seconds())
    pause = max(grown, _asked_pause(state, error))
    now = time.monotonic()
    state.waiting_since = state.waiting_since or now
    if now + pause - state.waiting_since > IN_FLIGHT_BUDGET:
        reason = f"effect {state.call.key!r} is still in flight at {destination.name}: {error}"
        state.attempt.end(StopReason.RELEASED, reason, back_in=pause)
        raise state.attempt.signal() from error
    yield Sleep(state.attempt, pause)


def _misused(state: CallState, error: BaseException) -> str:
    effect = state.effect
    then = effect.fingerprints if effect else {}
    now = state.attempt.runtime.seals.like(then, state.call.fingerprints, state.attempt.run_id)
    ignored = f" (not compared: {', '.join(sorted(state.spec.ignore))})" if state.spec.ignore else ""
    return (
        f"the destination has this key with other parameters: {error}. The arguments' fingerprints were "
        f"{shown(then)} and are {shown(now)}{ignored}, so what changed is something that the function reads "
        "by itself. The first request may have happened as it was: look there, then resolve; "
        "NotApplied(new_operation=True) sends it anew under another id"
    )


def _before_next_try(state: CallState, error: BaseException) -> Operations:
    """Wait for the effect's own next try, or raise the error where there is none."""
    retry = state.spec.retry
    over = retry is None or not isinstance(error, Exception) or isinstance(error, EffectLogControl)
    if over or isinstance(error, asyncio.CancelledError) or state.attempt.stop_reason is not None:
        raise error
    assert retry is not None  # noqa: S101 - just asked
    if retry.ends_after_error(state.tries) or isinstance(error, retry.give_up_on):
        raise error
    if state.spec.policy is Policy.HOLD and state.effect is not None and state.effect.unsettled:
        return  # Nothing is sent again, so there is nothing to wait for.
    asked = _asked_pause(state, error)
    yield Sleep(state.attempt, retry.delay_after(state.tries, asked))


def _asked_pause(state: CallState, error: BaseException) -> float:
    """Seconds that the destination asked for, which whoever goes on after a release keeps as well."""
    asked = pause_asked_by(error)
    if asked:
        state.attempt.not_before = max(state.attempt.not_before, time.monotonic() + asked)
    return asked
