"""What an effect call must do, given what the journal holds under its key. Pure."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from effectlog.errors import EffectConflict
from effectlog.keys import Seals, differing
from effectlog.model import EffectState

if TYPE_CHECKING:
    from effectlog.decorators.spec import EffectCall
    from effectlog.store.rows import EffectRow


_UNKEYED = Seals()


class Answer(Enum):
    """What the record of an effect says about the next call."""

    SEND = "send"
    """Nothing is recorded, or only definite failures that may be asked again."""
    REPLAY = "replay"
    """A result is recorded."""
    RERAISE = "reraise"
    """It failed for good."""
    DOUBT = "doubt"
    """An earlier request has no outcome."""


def answer(effect: EffectRow | None, call: EffectCall, seals: Seals = _UNKEYED) -> Answer:
    """Read the journal for one call.

    Raises EffectConflict if the key was used by another effect function or with other arguments,
    OtherSecretError if that can't be decided.
    """
    if effect is None:
        return Answer.SEND
    check_same(effect, call, seals)
    if effect.state is EffectState.COMPLETED:
        return Answer.REPLAY
    if effect.state is EffectState.STARTED:
        return Answer.DOUBT
    return Answer.RERAISE if effect.final else Answer.SEND


def check_same(effect: EffectRow, call: EffectCall, seals: Seals) -> None:
    """Refuse a call that would be answered with another call's record."""
    if effect.name != call.spec.name:
        raise EffectConflict(
            f"effect key {call.key!r} of run {effect.run_id} belongs to {effect.name}, and was now used by "
            f"{call.spec.name}; give each effect a key of its own (or name= after a rename)",
            run_id=effect.run_id,
            effect_key=call.key,
            parameters=[],
        )
    stored = effect.fingerprints
    given = seals.like(stored, call.fingerprints, effect.run_id)
    if stored == given:
        return
    defaults = seals.like(stored, call.default_fingerprints(), effect.run_id)
    names = differing(stored, given, defaults)
    if names:
        was = {name: stored.get(name, "absent") for name in names}
        now = {name: given.get(name, "absent") for name in names}
        raise EffectConflict(
            f"effect {call.spec.name} of run {effect.run_id} was recorded under key {call.key!r} with "
            f"another {', '.join(names)} (fingerprints {was}, now {now}); put what tells the calls apart "
            "into the key, or name a parameter that may differ in ignore=",
            run_id=effect.run_id,
            effect_key=call.key,
            parameters=names,
        )
