"""Asking the destination about an effect in doubt, and recording what it answers."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from effectlog import commands as c
from effectlog import doubt
from effectlog.attempt import Ending
from effectlog.checks import seconds
from effectlog.codec import convert
from effectlog.errors import ConfigurationError, DecodingError, EncodingError
from effectlog.failure import describe
from effectlog.model import Applied, NotApplied, Unknown
from effectlog.notice import warn
from effectlog.steps import Ask, AskDead, Commit, Sleep

if TYPE_CHECKING:
    from effectlog.call import Turn
    from effectlog.rows import EffectRow
    from effectlog.steps import Steps

logger = logging.getLogger("effectlog")

DEFAULT_SETTLE = 1.0
"""Seconds before a miss counts where no contract says how long the destination's index may lag."""
_SHORTEST_ANSWER = 1.0


class Proof(Struct, frozen=True):
    """What a miss of the coming look-up will be worth: nothing yet, or not as long as the owner may be alive."""

    left: float
    """Seconds until earlier requests must have shown."""
    owner_dead: bool


def look_up(turn: Turn, effect: EffectRow) -> Steps:
    """Ask once; settle the effect, wait before the next question, or hold."""
    # Before the question: a request may land while it is being answered.
    proof = yield from _worth_of_a_miss(turn, effect)
    asked_at = time.monotonic()
    answer = yield from _ask(turn, effect)
    turn.asked += 1
    turn.attempt.observer.looked_up(effect, answer)
    if turn.exists and isinstance(answer, NotApplied):
        answer = Unknown()  # The destination itself said that it exists, so its index is behind.
    match answer:
        case Applied(value):
            yield from _settle_applied(turn, effect, value)
        case NotApplied(new_operation):
            turn.unknown_since = None
            yield from _settle_not_applied(turn, effect, proof, new_operation=new_operation)
        case Unknown(retry_after):
            turn.unknown_since = turn.unknown_since or asked_at
            waited = time.monotonic() - turn.unknown_since
            if waited >= turn.spec.lookup_budget:
                why = f"; it failed with {turn.look_up_error}" if turn.look_up_error else ""
                turn.hold(f"its look-up could not tell for {waited:.0f} s{why}")
            pause = doubt.look_up_again(turn.asked, _pause(retry_after))
            yield Sleep(turn.attempt, min(pause, max(0.05, turn.spec.lookup_budget - waited)))


def _pause(retry_after: Any) -> float | None:
    """The pause that a look-up asked for, in seconds; what is none asks for nothing."""
    try:
        return None if retry_after is None else seconds(retry_after, "Unknown(retry_after")
    except ConfigurationError as error:
        warn(str(error))
        return None


def _worth_of_a_miss(turn: Turn, effect: EffectRow) -> Steps:
    attempt = turn.attempt
    destination = doubt.contract_of(effect, turn.spec)
    settle = destination.settle.total_seconds() if destination else DEFAULT_SETTLE
    left = attempt.settle_left(effect, settle, also_own=True)
    others = frozenset(
        earlier.owner for earlier in attempt.run.attempts if earlier.number in effect.executing
    )
    if not others:
        return Proof(left, owner_dead=True)
    if turn.dead_since is None and others == (yield AskDead(attempt, others)):
        turn.dead_since = time.monotonic()
    if turn.dead_since is None:
        return Proof(left, owner_dead=False)
    # A paused owner may have come back and sent right before it died.
    return Proof(max(left, turn.dead_since + settle - time.monotonic()), owner_dead=True)


def _ask(turn: Turn, effect: EffectRow) -> Steps:
    assert turn.spec.look_up is not None  # noqa: S101 - its policy says so
    assert turn.spec.question is not None  # noqa: S101 - as above
    request, call = turn.request_scope(effect), turn.call
    timeout = max(_SHORTEST_ANSWER, turn.spec.lookup_budget)
    turn.look_up_error = ""
    try:
        args, kwargs = turn.spec.question.arguments(call.instance, call.args, call.kwargs)
        answer = yield Ask(request, turn.spec.look_up, args, kwargs, timeout)
    except Exception as error:
        problem = describe(error)
        turn.look_up_error = f"{problem.type}: {problem.message}"
        logger.warning(
            "effectlog: the look-up for effect %r of run %s failed, so it can't tell: %s",
            call.key,
            turn.attempt.run_id,
            turn.look_up_error,
            extra=turn.extra,
        )
        return Unknown()
    if not isinstance(answer, Applied | NotApplied | Unknown):
        turn.attempt.warn(
            f"look-up {turn.spec.name}",
            f"the look-up of effect {turn.spec.name} returned {type(answer).__qualname__}; return Applied(value), "
            f"NotApplied() or Unknown(). It counts as Unknown",
        )
        return Unknown()
    return answer


def _settle_applied(turn: Turn, effect: EffectRow, value: object) -> Steps:
    try:
        data, _ = turn.stored_form(convert(value, turn.spec.returns.value))
    except (EncodingError, DecodingError) as error:
        turn.hold(f"its look-up found it, but the value can't be the result: {error}")
    yield from _commit(turn, effect, applied=True, result=data)


def _settle_not_applied(turn: Turn, effect: EffectRow, proof: Proof, *, new_operation: bool) -> Steps:
    if proof.left > 0:
        # The index may lag behind, or the first request may still be on its way.
        yield Sleep(turn.attempt, min(proof.left, doubt.look_up_again(turn.asked)))
    elif not proof.owner_dead:
        turn.hold("its look-up found nothing, but an earlier owner may still be alive and sending")
    else:
        yield from _commit(turn, effect, applied=False, new_operation=new_operation)


def _commit(
    turn: Turn,
    effect: EffectRow,
    *,
    applied: bool,
    result: bytes | None = None,
    new_operation: bool = False,
) -> Steps:
    outcome = yield Commit(
        turn.attempt,
        c.SettleEffect(
            turn.attempt.run_id,
            turn.call.key,
            applied,
            by="look-up",
            result=result,
            evidence=f"look-up in attempt {turn.attempt.fence.attempt}",
            new_operation=new_operation,
            fence=turn.attempt.fence,
            seen=effect.version,
        ),
    )
    if isinstance(outcome, c.EffectStored):
        turn.attempt.learn(outcome.effect)
    elif isinstance(outcome, c.Refused):
        # What the store holds counts, also where this attempt had foreseen something later.
        turn.attempt.relearn(turn.call.key, outcome.effect)
    if isinstance(outcome, c.Refused) and outcome.reason is c.Refusal.NOT_OWNER:
        turn.attempt.end(Ending.LOST)
        raise turn.attempt.signal()
