"""Asking the destination about an effect in doubt, and recording what it answers."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from effectlog import commands as c
from effectlog import doubt
from effectlog.attempt import Ending
from effectlog.codec import convert
from effectlog.errors import DecodingError, EncodingError
from effectlog.model import Applied, NotApplied, Unknown
from effectlog.steps import Ask, AskDead, Commit, Sleep

if TYPE_CHECKING:
    from effectlog.call import _Call
    from effectlog.rows import EffectRow
    from effectlog.steps import Steps

logger = logging.getLogger("effectlog")

DEFAULT_SETTLE = 1.0
"""Seconds before a miss counts where no contract says how long the destination's index may lag."""


def look_up(turn: _Call, effect: EffectRow) -> Steps:
    """Ask once; settle the effect, wait before the next question, or hold."""
    answer = yield from _ask(turn, effect)
    turn.asked += 1
    match answer:
        case Applied(value):
            yield from _settle_applied(turn, effect, value)
        case NotApplied(new_operation):
            yield from _settle_not_applied(turn, effect, new_operation=new_operation)
        case Unknown(retry_after):
            waited = time.monotonic() - turn.asking_since
            if waited >= turn.spec.lookup_budget:
                turn._hold(f"its look-up could not tell for {waited:.0f} s")  # noqa: SLF001 - one turn, two modules
            pause = doubt.look_up_again(turn.asked, retry_after)
            yield Sleep(turn.attempt, min(pause, max(0.05, turn.spec.lookup_budget - waited)))


def _ask(turn: _Call, effect: EffectRow) -> Steps:
    assert turn.spec.look_up is not None  # noqa: S101 - its policy says so
    try:
        answer = yield Ask(turn.request_scope(effect), turn.spec.look_up, turn.call.args, turn.call.kwargs)
    except Exception as error:
        logger.warning(
            "effectlog: the look-up for effect %r of run %s failed, so it can't tell: %s: %s",
            turn.call.key,
            turn.attempt.run_id,
            type(error).__qualname__,
            error,
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


def _settle_applied(turn: _Call, effect: EffectRow, value: object) -> Steps:
    try:
        data = turn.attempt.codec.encode(convert(value, turn.spec.returns.value))
    except (EncodingError, DecodingError) as error:
        turn._hold(f"its look-up found it, but the value can't be the result: {error}")  # noqa: SLF001
    else:
        yield from _commit(turn, effect, applied=True, result=data)


def _settle_not_applied(turn: _Call, effect: EffectRow, *, new_operation: bool) -> Steps:
    destination = turn.spec.destination
    settle = destination.settle.total_seconds() if destination else DEFAULT_SETTLE
    left = turn.attempt.settle_left(effect, settle, also_own=True)
    if left > 0:
        # The index may lag behind, or the first request may still be on its way.
        yield Sleep(turn.attempt, min(left, 1.0))
        return
    others = frozenset(
        attempt.owner for attempt in turn.attempt.run.attempts if attempt.number in effect.executing
    )
    if others and others != (yield AskDead(turn.attempt, others)):
        turn._hold("its look-up found nothing, but an earlier owner may still be alive and sending")  # noqa: SLF001
    yield from _commit(turn, effect, applied=False, new_operation=new_operation)


def _commit(
    turn: _Call,
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
    if isinstance(outcome, c.EffectStored | c.Refused):
        turn.attempt.learn(outcome.effect)
    if isinstance(outcome, c.Refused) and outcome.reason is c.Refusal.NOT_OWNER:
        turn.attempt.end(Ending.LOST)
        raise turn.attempt.signal()
