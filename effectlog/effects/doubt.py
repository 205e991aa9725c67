"""What to do about an effect in doubt: send again, wait, ask, or hold. Pure.

The contract's limits come before the declared policy: no resend past the send horizon, none before an
earlier owner's request had time to settle, and no look-up's miss counts while it may still land.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from effectlog.contract import Destination
from effectlog.errors import ConfigurationError, DecodingError
from effectlog.model import Policy

if TYPE_CHECKING:
    from effectlog.clock import Clock
    from effectlog.decorators.spec import EffectSpec
    from effectlog.store.rows import EffectRow, RequestClock

_SHORTEST_WAIT = 0.05
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 60.0


class Resend(Struct, frozen=True):
    """Send another request with the same operation id."""


class Wait(Struct, frozen=True):
    """Look again after this many seconds."""

    seconds: float


class LookUp(Struct, frozen=True):
    """Ask the destination."""


class Hold(Struct, frozen=True):
    """Leave it to a person or a program; ``reason`` is for people."""

    reason: str


Decision: TypeAlias = Resend | Wait | LookUp | Hold


def age(first: RequestClock, clock: Clock) -> float:
    """Seconds since the first request, by whichever clock saw more of them pass.

    A wall clock that stands before the first request has been stepped back, so nothing it says
    can be trusted: the age is then infinite.
    """
    wall = clock.wall() - first.wall
    if wall < 0:
        return float("inf")
    if first.boot_id == clock.identity:
        return max(wall, clock.boot() - first.boot)
    return wall


def past_horizon(effect: EffectRow, destination: Destination | None, clock: Clock) -> bool:
    """Whether the destination may have forgotten the key of the first request."""
    horizon = None if destination is None else destination.send_horizon()
    if horizon is None or effect.first_request is None:
        return False
    return age(effect.first_request, clock) >= horizon.total_seconds()


def decide(effect: EffectRow, spec: EffectSpec, clock: Clock, *, settle_left: float) -> Decision:
    """The declared answer to this doubt, within the contract's limits.

    ``settle_left``: seconds until a request of an earlier owner must have shown at the destination.
    """
    if spec.policy is Policy.HOLD:
        return Hold("its policy is to hold")
    if effect.policy is Policy.HOLD:
        return Hold("it was held before and nobody has decided")
    if moved := _moved(effect, spec):
        return Hold(moved)
    if spec.policy is Policy.LOOK_UP:
        return LookUp()
    contract = contract_of(effect, spec)
    if past_horizon(effect, contract, clock):
        return Hold("the destination may have forgotten the key of the first request (send horizon passed)")
    if settle_left > 0 and contract is not None:
        return Wait(settle_left)
    return Resend()


def contract_of(effect: EffectRow, spec: EffectSpec) -> Destination | None:
    """The contract that binds a resend: the declared one, or else that of the first request."""
    return spec.destination or stored_contract(effect)


def _moved(effect: EffectRow, spec: EffectSpec) -> str | None:
    """Another account knows neither the key nor the operation: neither a resend nor a miss is safe there."""
    sent_under, declared = stored_contract(effect), spec.destination
    if sent_under is None or declared is None or declared.shares_keys_with(sent_under):
        return None
    return f"it was sent to {_named(sent_under)}, and is declared for {_named(declared)} now"


def _named(contract: Destination) -> str:
    return contract.name if contract.account is None else f"{contract.name} (account {contract.account})"


def stored_contract(effect: EffectRow) -> Destination | None:
    """The contract that the first request was sent under. Raises DecodingError for one that can't be read."""
    if effect.destination is None:
        return None
    try:
        return Destination.from_json(json.loads(effect.destination))
    except (ValueError, TypeError, AttributeError, ConfigurationError) as error:
        raise DecodingError(
            f"the contract of effect {effect.key!r} of run {effect.run_id} is damaged in the store: {error}",
            path="destination",
            type_name="Destination",
            damaged=True,
        ) from error


def look_up_again(asked: int, retry_after: float | None = None) -> float:
    """Seconds before the destination is asked for the ``asked + 1``-th time."""
    if retry_after is not None:
        return max(_SHORTEST_WAIT, retry_after)
    return _grown(_FIRST_WAIT, asked)


def in_flight_again(answers: int, first: float) -> float:
    """Seconds to wait after the ``answers``-th answer that another request is in flight."""
    return max(first, _SHORTEST_WAIT, _grown(first, answers))


def _grown(first: float, times: int) -> float:
    return float(min(first * 2 ** min(times - 1, 20), _LONGEST_WAIT))
