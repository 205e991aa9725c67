"""Asking the destination about an effect in doubt, and recording what it answers."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from effectlog.clients.retry_after import pause_asked_by
from effectlog.codec import convert
from effectlog.effects import doubt
from effectlog.effects.driver import Ask, AskDead, Commit, Sleep
from effectlog.error_info import describe
from effectlog.errors import ConfigurationError, DecodingError, EncodingError
from effectlog.model import Applied, NotApplied, Unknown
from effectlog.store import commands as c
from effectlog.user_warnings import warn
from effectlog.validation import seconds

if TYPE_CHECKING:
    from effectlog.effects.call_state import CallState
    from effectlog.effects.driver import Operations
    from effectlog.store.rows import EffectRow

logger = logging.getLogger("effectlog")

DEFAULT_SETTLE = 1.0
"""Seconds before a miss counts where no contract says how long the destination's index may lag."""
_SHORTEST_ANSWER = 1.0


class Proof(Struct, frozen=True):
    """What a miss of the coming look-up will prove: nothing yet, or nothing while an owner may be alive."""

    left: float
    """Seconds until earlier requests must have shown."""
    owner_dead: bool


def look_up(state: CallState, effect: EffectRow) -> Operations:
    """Ask once; settle the effect, wait before the next question, or hold."""
    # Before the question: a request may land while it is being answered.
    proof = yield from _worth_of_a_miss(state, effect)
    asked_at = time.monotonic()
    answer = yield from _ask(state, effect)
    state.asked += 1
    state.attempt.observer.looked_up(effect, answer)
    if state.exists and isinstance(answer, NotApplied):
        answer = Unknown()  # The destination itself said that it exists, so its index is behind.
    match answer:
        case Applied(value):
            yield from _settle_applied(state, effect, value)
        case NotApplied(new_operation):
            state.unknown_since = None
            yield from _settle_not_applied(state, effect, proof, new_operation=new_operation)
        case Unknown(retry_after):
            state.unknown_since = state.unknown_since or asked_at
            waited = time.monotonic() - state.unknown_since
            if waited >= state.spec.lookup_budget:
                why = f"; it failed with {state.look_up_error}" if state.look_up_error else ""
                state.hold(f"its look-up could not tell for {waited:.0f} s{why}")
            pause = doubt.look_up_again(state.asked, _pause(retry_after))
            yield Sleep(state.attempt, min(pause, max(0.05, state.spec.lookup_budget - waited)))


def _pause(retry_after: Any) -> float | None:
    """The pause that a look-up asked for, in seconds; None where it asked for none, or for nonsense."""
    try:
        return None if retry_after is None else seconds(retry_after, "Unknown(retry_after")
    except ConfigurationError as error:
        warn(str(error))
        return None


def _worth_of_a_miss(state: CallState, effect: EffectRow) -> Operations:
    attempt = state.attempt
    settle = state.settle(effect, otherwise=DEFAULT_SETTLE)
    left = attempt.settle_left(effect, settle, also_own=True)
    others = frozenset(
        earlier.owner for earlier in attempt.run.attempts if earlier.number in effect.executing
    )
    if not others:
        return Proof(left, owner_dead=True)
    if state.dead_since is None and others == (yield AskDead(attempt, others)):
        state.dead_since = time.monotonic()
    if state.dead_since is None:
        return Proof(left, owner_dead=False)
    # A paused owner may have come back and sent right before it died.
    return Proof(max(left, state.dead_since + settle - time.monotonic()), owner_dead=True)


def _ask(state: CallState, effect: EffectRow) -> Operations:
    assert state.spec.look_up is not None  # noqa: S101 - its policy says so
    assert state.spec.look_up_arguments is not None  # noqa: S101 - as above
    request, call = state.request_scope(effect), state.call
    timeout = max(_SHORTEST_ANSWER, state.spec.lookup_budget)
    state.look_up_error = ""
    try:
        args, kwargs = state.spec.look_up_arguments.arguments(call.instance, call.args, call.kwargs)
        answer = yield Ask(request, state.spec.look_up, args, kwargs, timeout)
    except Exception as error:
        problem = describe(error)
        state.look_up_error = f"{problem.type}: {problem.message}"
        logger.warning(
            "effectlog: the look-up for effect %r of run %s failed, so it can't tell: %s",
            call.key,
            state.attempt.run_id,
            state.look_up_error,
            extra=state.extra,
        )
        return Unknown(pause_asked_by(error) or None)
    if not isinstance(answer, Applied | NotApplied | Unknown):
        state.attempt.warn(
            f"look-up {state.spec.name}",
            f"the look-up of effect {state.spec.name} returned {type(answer).__qualname__}; return "
            "Applied(value), NotApplied() or Unknown(). It counts as Unknown",
        )
        return Unknown()
    return answer


def _settle_applied(state: CallState, effect: EffectRow, value: object) -> Operations:
    try:
        data, _ = state.stored_form(convert(value, state.spec.returns.value))
    except (EncodingError, DecodingError) as error:
        state.hold(f"its look-up found it, but the value can't be the result: {error}")
    yield from _commit(state, effect, applied=True, result=data)


def _settle_not_applied(
    state: CallState, effect: EffectRow, proof: Proof, *, new_operation: bool
) -> Operations:
    if proof.left > 0:
        # The index may lag behind, or the first request may still be on its way.
        yield Sleep(state.attempt, min(proof.left, doubt.look_up_again(state.asked)))
    elif not proof.owner_dead:
        state.hold("its look-up found nothing, but an earlier owner may still be alive and sending")
    else:
        yield from _commit(state, effect, applied=False, new_operation=new_operation)


def _commit(
    state: CallState,
    effect: EffectRow,
    *,
    applied: bool,
    result: bytes | None = None,
    new_operation: bool = False,
) -> Operations:
    outcome = yield Commit(
        state.attempt,
        c.SettleEffect(
            state.attempt.run_id,
            state.call.key,
            applied,
            by="look-up",
            result=result,
            evidence=f"look-up in attempt {state.attempt.fence.attempt}",
            new_operation=new_operation,
            fence=state.attempt.fence,
            seen=effect.version,
        ),
    )
    if isinstance(outcome, c.EffectStored):
        state.attempt.learn(outcome.effect)
    elif isinstance(outcome, c.Refused):
        # What the store holds counts, also where this attempt had foreseen something later.
        state.attempt.relearn(state.call.key, outcome.effect)
    if isinstance(outcome, c.Refused) and outcome.reason is c.Refusal.NOT_OWNER:
        raise state.attempt.lose()
