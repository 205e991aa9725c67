"""A completed effect's recorded result for a later call: the value that the first one got, or why not."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from effectlog.codec import convert
from effectlog.errors import DecodingError, EncodingError
from effectlog.model import UNREADABLE_HERE
from effectlog.store.rules.evidence import is_late_outcome

if TYPE_CHECKING:
    from effectlog.attempt.attempt import Attempt
    from effectlog.decorators.spec import EffectCall
    from effectlog.store.rows import EffectRow

_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 300.0
"""Seconds before a run is offered again of which something could not be read here."""


def replay(attempt: Attempt, call: EffectCall, effect: EffectRow) -> Any:
    """What the completed effect returned, as the call's function declares it; nothing is sent."""
    if effect.result is None:
        raise EncodingError(
            f"effect {call.key!r} of run {attempt.run_id} was completed, but its result could not be "
            f"stored: {effect.result_error}. It is not sent again; supply the value with "
            f"'effectlog resolve {attempt.run_id} KEY --applied JSON --by YOU'",
            path="result",
            type_name="",
            effect_key=call.key,
        )
    try:
        value = attempt.runtime.codec.decode(effect.result, call.spec.returns.value)
    except DecodingError as error:
        if error.damaged:
            raise _unreadable(attempt, call, error) from error
        # Another process may know the class: the run goes back and no attempt is used.
        attempt.unreadable_here = True
        attempt.refuse(
            f"{error}; it is in the recorded result of effect {call.key!r}, so only a process that knows it "
            "can go on",
            back_in=_pause(attempt),
        )
        raise attempt.signal() from error
    return _as_declared(attempt, call, effect, value)


def _pause(attempt: Attempt) -> float:
    """Twice as long after each attempt in a row that could not read it: what helps is a deploy."""
    earlier = [a for a in attempt.run.attempts if a.number < attempt.fence.attempt]
    in_a_row = takewhile(lambda a: a.error is not None and a.error.type == UNREADABLE_HERE, reversed(earlier))
    return float(min(_FIRST_PAUSE * 2 ** sum(1 for _ in in_a_row), _LONGEST_PAUSE))


def _unreadable(attempt: Attempt, call: EffectCall, error: DecodingError) -> DecodingError:
    return DecodingError(
        f"the recorded result of effect {call.key!r} of run {attempt.run_id} is damaged in the store, and "
        f"the effect is not sent again: {error}",
        path=error.path,
        type_name=error.type_name,
        damaged=True,
    )


def _as_declared(attempt: Attempt, call: EffectCall, effect: EffectRow, value: Any) -> Any:
    """Whoever resolved it may not have had this code at hand to convert the value by."""
    if effect.resolved_by is None or is_late_outcome(effect.resolved_by):
        return value
    try:
        return convert(value, call.spec.returns.value)
    except DecodingError as error:
        raise DecodingError(
            f"effect {call.key!r} of run {attempt.run_id} was resolved by {effect.resolved_by} with a value "
            f"that {call.spec.name} is not declared to return: {error}; change the declaration, then "
            f"'effectlog retry {attempt.run_id}'",
            path=error.path,
            type_name=error.type_name,
        ) from error
