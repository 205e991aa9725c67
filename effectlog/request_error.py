"""What an exception of a request means for its effect: success in disguise, wait, give up, try again, or doubt.

Whatever it means is recorded before anything follows. The invariant: only a proof makes a request
"did nothing"; an exception without one leaves the effect in doubt.
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
from effectlog.codec import convert
from effectlog.contract import Verdict
from effectlog.errors import ConfigurationError, DecodingError, EffectLogControl
from effectlog.failure import declared_failure, describe
from effectlog.model import Policy
from effectlog.steps import Sleep

if TYPE_CHECKING:
    from effectlog.call import Turn
    from effectlog.steps import Steps

logger = logging.getLogger("effectlog")

IN_FLIGHT_BUDGET = 120.0
"""Seconds that answers of "another request is in flight" are waited out before the attempt is given back."""


def after_error(turn: Turn, error: BaseException) -> Steps:
    """Record what the exception says: (True, value) for success, (False, None) to look again, or raise."""
    verdict = _judge(turn, error)
    if verdict is Verdict.APPLIED:
        return _take_existing(turn, error)
    if verdict is Verdict.IN_FLIGHT:
        yield from _wait_out(turn, error)
        return False, None
    if verdict is Verdict.KEY_MISUSED:
        turn.finish(c.RequestOutcome.UNKNOWN, error)
        turn.hold(_misused(turn, error))
    if isinstance(error, turn.spec.final):
        turn.finish(c.RequestOutcome.FINAL, error)
        raise declared_failure(
            describe(error), turn.spec.final, turn.attempt.run_id, turn.call.key
        ) from error
    if verdict is Verdict.NOT_APPLIED or isinstance(error, turn.spec.not_applied):
        rule = turn.spec.destination.failure_rule if turn.spec.destination else None
        turn.finish(c.RequestOutcome.NOT_APPLIED, error, new_operation=rule == "new_key")
    else:
        turn.finish(c.RequestOutcome.UNKNOWN, error)
    yield from _before_next_try(turn, error)
    return False, None


def awaitable_error(name: str, value: Any) -> ConfigurationError:
    """The error for a sync function that returned an awaitable, which is closed where that can be."""
    if inspect.iscoroutine(value):
        value.close()
    return ConfigurationError(
        f"effect {name} is a sync function and returned an awaitable, which can't be a result; "
        f"declare it with 'async def' and await inside"
    )


def _judge(turn: Turn, error: BaseException) -> Verdict:
    destination = turn.spec.destination
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


def _take_existing(turn: Turn, error: BaseException) -> tuple[bool, Any]:
    """The error proves that the operation exists, which is success: with what it names, or what a look-up finds."""
    logger.info("effectlog: effect %r exists at the destination: %s", turn.call.key, error, extra=turn.extra)
    turn.exists = True
    value = _named_by(turn, error)
    if value is not None and _fits(turn, value):
        return True, turn.complete(value)
    if turn.spec.look_up is None and _fits(turn, None):
        return True, turn.complete(None)
    turn.finish(c.RequestOutcome.UNKNOWN, error)
    if turn.spec.look_up is None:
        turn.hold(
            f"the destination has it already ({error}), and what it says of it ({value!r}) can't be the declared "
            f"result; resolve it with the value, or give the effect a look-up"
        )
    return False, None


def _named_by(turn: Turn, error: BaseException) -> Any:
    destination = turn.spec.destination
    assert destination is not None  # noqa: S101 - its classifier spoke
    try:
        return destination.existing(error)
    except Exception:
        logger.exception("effectlog: existing= of %s failed, so the error names nothing", destination.name)
        return None


def _fits(turn: Turn, value: Any) -> bool:
    try:
        convert(value, turn.spec.returns.value)
    except DecodingError:
        return False
    return True


def _wait_out(turn: Turn, error: BaseException) -> Steps:
    """Another request with this key is being executed over there: wait, using no attempt and no try."""
    turn.finish(c.RequestOutcome.UNKNOWN, error)
    destination = turn.spec.destination
    assert destination is not None  # noqa: S101 - its classifier spoke
    turn.tries -= 1
    turn.in_flight += 1
    pause = doubt.in_flight_again(turn.in_flight, destination.in_flight_wait.total_seconds())
    now = time.monotonic()
    turn.waiting_since = turn.waiting_since or now
    if now + pause - turn.waiting_since > IN_FLIGHT_BUDGET:
        reason = f"effect {turn.call.key!r} is still in flight at {destination.name}: {error}"
        turn.attempt.end(Ending.RELEASED, reason, back_in=pause)
        raise turn.attempt.signal() from error
    yield Sleep(turn.attempt, pause)


def _misused(turn: Turn, error: BaseException) -> str:
    effect = turn.effect
    then = effect.fingerprints if effect else {}
    ignored = f" (not compared: {', '.join(sorted(turn.spec.ignore))})" if turn.spec.ignore else ""
    return (
        f"the destination has this key with other parameters: {error}. The arguments' fingerprints were {then} and "
        f"are {turn.call.fingerprints}{ignored}, so what changed is something that the function reads by "
        f"itself. The first request may have happened as it was: look there, then resolve; "
        f"NotApplied(new_operation=True) sends it anew under another id"
    )


def _before_next_try(turn: Turn, error: BaseException) -> Steps:
    """Wait for the effect's own next try, or raise the error where there is none."""
    retry = turn.spec.retry
    over = retry is None or not isinstance(error, Exception) or isinstance(error, EffectLogControl)
    if over or isinstance(error, asyncio.CancelledError) or turn.attempt.ending is not None:
        raise error
    assert retry is not None  # noqa: S101 - just asked
    if retry.ends_after_error(turn.tries) or isinstance(error, retry.give_up_on):
        raise error
    if turn.spec.policy is Policy.HOLD and turn.effect is not None and turn.effect.unsettled:
        return  # Nothing is sent again, so there is nothing to wait for.
    yield Sleep(turn.attempt, retry.delay_after(turn.tries))
