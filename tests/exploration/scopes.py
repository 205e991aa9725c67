"""How far the explorer goes: the scopes of every run of the suite, the large ones, and the quick ones for mutants."""

from __future__ import annotations

from exploration.production import Case, StopReason
from exploration.world import Scope

GIVEN_BACK = (StopReason.RELEASED, StopReason.TIMED_OUT)
HOLD = Case("hold")
RESEND = Case("resend")
KEYED = Case("resend", keyed=True)
FORGETFUL = Case("resend", keyed=True, retention=True)
LOOK_UP = Case("look-up", ignores=True)

# left: decisions, actions of operators, lost answers, disturbances, look-ups that can't tell.
DEFAULT: dict[str, Scope] = {
    "hold, a person": Scope(HOLD, 2, 2, left=(1, 0, 0, 0, 0), refusals=False),
    "hold, lost answers": Scope(HOLD, 2, 2, left=(0, 0, 1, 0, 0), refusals=False),
    "hold, operators": Scope(HOLD, 2, 1, left=(0, 1, 0, 0, 0), refusals=False),
    "hold, swallowed errors": Scope(HOLD._replace(swallows=True), 2, 2, left=(0, 0, 0, 0, 0)),
    "resend": Scope(RESEND, 2, 2, left=(0, 0, 0, 0, 0), refusals=False),
    "resend, dead letters": Scope(
        RESEND._replace(max_attempts=2, max_crashes=2, on_dead=True),
        2,
        1,
        left=(0, 1, 0, 0, 0),
        refusals=False,
    ),
    "resend with a key that is forgotten": Scope(
        FORGETFUL, 2, 2, left=(0, 0, 0, 0, 0), refusals=False, crashes=False
    ),
    "look-up": Scope(LOOK_UP, 2, 2, left=(0, 0, 0, 0, 0), refusals=False),
}

LARGE: dict[str, Scope] = {
    "hold, a person, refusals": Scope(HOLD, 2, 2, left=(1, 0, 0, 0, 0)),
    "hold, two people, two operators": Scope(HOLD, 2, 2, left=(2, 2, 0, 0, 0), refusals=False),
    "hold, given back": Scope(
        HOLD._replace(is_async=True), 2, 2, left=(1, 0, 0, 1, 0), disturbances=GIVEN_BACK
    ),
    "hold, two tries": Scope(HOLD._replace(tries=2), 2, 3, left=(1, 0, 0, 0, 0)),
    "resend, lost answers": Scope(RESEND, 2, 2, left=(0, 0, 1, 0, 0)),
    "resend with a key": Scope(KEYED, 2, 2, left=(1, 0, 0, 0, 0)),
    "resend, a new key after a failure": Scope(KEYED._replace(new_key=True), 2, 2, left=(0, 0, 0, 0, 0)),
    "resend, a forgotten key and a person": Scope(FORGETFUL, 2, 2, left=(1, 0, 0, 0, 0), refusals=False),
    "look-up, a person": Scope(LOOK_UP, 2, 2, left=(1, 0, 0, 0, 1), same_process=True),
    "look-up, lost answers": Scope(LOOK_UP, 2, 2, left=(0, 0, 1, 0, 0)),
    "hold, 3 attempts, 3 requests, 2 decisions": Scope(HOLD, 3, 3, left=(2, 0, 0, 0, 0)),
    "look-up, 3 attempts, 3 requests": Scope(LOOK_UP, 3, 3, left=(0, 0, 0, 0, 0)),
    "resend, 3 attempts, 3 requests": Scope(RESEND, 3, 3, left=(0, 0, 0, 0, 0)),
    "resend with a key, 3 attempts, 3 requests": Scope(KEYED, 3, 3, left=(0, 0, 0, 0, 0)),
}

# Where a planted fault shows: small, and each with something that the others lack.
QUICK: dict[str, Scope] = {
    "hold": Scope(HOLD._replace(swallows=True), 2, 2, left=(1, 0, 0, 0, 0)),
    "look-up": Scope(LOOK_UP, 2, 2, left=(0, 0, 0, 0, 1), same_process=True),
    "operators": Scope(
        HOLD._replace(on_dead=True, max_crashes=2), 2, 1, left=(1, 2, 0, 0, 0), refusals=False
    ),
    "forgetful": Scope(FORGETFUL._replace(new_key=True, tries=2), 2, 3, left=(0, 0, 0, 0, 0)),
    "given back": Scope(
        HOLD._replace(is_async=True), 2, 1, left=(1, 1, 1, 1, 0), disturbances=GIVEN_BACK, refusals=False
    ),
}
