"""The answer to an effect in doubt, as a table: the contract's limits first, then the declared policy."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from effectlog import Destination, effect
from effectlog.decorators.registry import declared_effect
from effectlog.effects.doubt import (
    Decision,
    Hold,
    LookUp,
    Resend,
    Wait,
    age,
    decide,
    in_flight_again,
    look_up_again,
)
from effectlog.model import Policy
from effectlog.store.rows import EffectRow, RequestClock

HOUR = 3600.0
CONTRACT = Destination("shop", retention=timedelta(hours=24), margin=timedelta(hours=1))
OTHER_ACCOUNT = CONTRACT.replace(account="live/eu")
ENDLESS = float("inf")


@dataclass
class FixedClock:
    """Both clocks stand ``since`` seconds after the first request, which was made at 1000 and 10."""

    since: float
    boot_since: float | None = None
    identity: str = "this boot"

    def wall(self) -> float:
        return 1000.0 + self.since

    def boot(self) -> float:
        return 10.0 + (self.since if self.boot_since is None else self.boot_since)


def look_up(order: str) -> None:
    del order


def spec_of(policy: Policy, destination: Destination | None) -> Any:
    in_doubt = {Policy.RESEND: "resend", Policy.HOLD: "hold", Policy.LOOK_UP: look_up}[policy]
    name = f"declared {policy} {destination and destination.account}"

    @effect(key="charge:{order}", name=name, destination=destination, in_doubt=in_doubt)
    def charge(order: str) -> None:
        del order

    assert inspect.isfunction(inspect.unwrap(charge))
    return declared_effect(name)


def row(policy: Policy, sent_under: Destination | None) -> EffectRow:
    return EffectRow(
        "run",
        "charge:7",
        "charge",
        "operation",
        {},
        policy,
        first_request=RequestClock(1000.0, 10.0, "this boot"),
        destination=None if sent_under is None else json.dumps(sent_under.to_json()),
    )


RESEND, HOLD, LOOK_UP = Policy.RESEND, Policy.HOLD, Policy.LOOK_UP
BEFORE, AFTER = 22.9 * HOUR, 23.1 * HOUR


@pytest.mark.parametrize(
    ("declared", "stored", "contract", "sent_under", "since", "settle_left", "expected"),
    [
        # No contract: the seeds' rule, however long ago.
        (RESEND, RESEND, None, None, 0.0, 0.0, Resend),
        (RESEND, RESEND, None, None, 1e9, 5.0, Resend),
        # A contract: its horizon, its settle time.
        (RESEND, RESEND, CONTRACT, CONTRACT, BEFORE, 0.0, Resend),
        (RESEND, RESEND, CONTRACT, CONTRACT, AFTER, 0.0, Hold),
        (RESEND, RESEND, CONTRACT, CONTRACT, BEFORE, 1.5, Wait),
        (RESEND, RESEND, CONTRACT, CONTRACT, AFTER, 1.5, Hold),
        # The contract of the first request binds where none is declared any more.
        (RESEND, RESEND, None, CONTRACT, AFTER, 0.0, Hold),
        (RESEND, RESEND, None, CONTRACT, BEFORE, 1.5, Wait),
        # Another account knows neither the key nor the operation.
        (RESEND, RESEND, OTHER_ACCOUNT, CONTRACT, 0.0, 0.0, Hold),
        (LOOK_UP, LOOK_UP, OTHER_ACCOUNT, CONTRACT, 0.0, 0.0, Hold),
        # A look-up asks before and after the horizon, and needs no settle time to ask.
        (LOOK_UP, LOOK_UP, CONTRACT, CONTRACT, AFTER, 1.5, LookUp),
        (LOOK_UP, RESEND, None, None, 0.0, 0.0, LookUp),
        # A hold stays one: whether declared now, or recorded before.
        (HOLD, RESEND, CONTRACT, CONTRACT, 0.0, 0.0, Hold),
        (RESEND, HOLD, None, None, 0.0, 0.0, Hold),
        (LOOK_UP, HOLD, None, None, 0.0, 0.0, Hold),
        # A clock before the first request says nothing: as if the horizon had passed.
        (RESEND, RESEND, CONTRACT, CONTRACT, -1.0, 0.0, Hold),
    ],
)
def test_each_doubt_has_one_answer(
    declared: Policy,
    stored: Policy,
    contract: Destination | None,
    sent_under: Destination | None,
    since: float,
    settle_left: float,
    expected: type[Decision],
) -> None:
    decision = decide(
        row(stored, sent_under), spec_of(declared, contract), FixedClock(since), settle_left=settle_left
    )
    assert type(decision) is expected
    if isinstance(decision, Wait):
        assert decision.seconds == settle_left


@pytest.mark.parametrize(
    ("since", "boot_since", "identity", "expected"),
    [
        (60.0, 60.0, "this boot", 60.0),
        (60.0, 7200.0, "this boot", 7200.0),  # The wall clock was set back meanwhile.
        (7200.0, 60.0, "this boot", 7200.0),  # The machine slept: the boot clock may not have counted it.
        (60.0, 7200.0, "another boot", 60.0),
        (-1.0, 60.0, "this boot", ENDLESS),
    ],
)
def test_the_clock_that_saw_more_time_pass_decides(
    since: float, boot_since: float, identity: str, expected: float
) -> None:
    first = RequestClock(1000.0, 10.0, "this boot")
    assert age(first, FixedClock(since, boot_since, identity)) == expected


def test_pauses_between_look_ups_grow_to_a_minute() -> None:
    assert [look_up_again(asked) for asked in (1, 2, 3, 8, 1000)] == [0.5, 1.0, 2.0, 60.0, 60.0]
    assert look_up_again(5, 12.0) == 12.0
    assert look_up_again(1, 0.0) > 0.0, "a look-up that asks at once would spin"


def test_pauses_after_in_flight_answers_begin_with_the_contracts_own() -> None:
    assert [in_flight_again(answers, 2.0) for answers in (1, 2, 3, 1000)] == [2.0, 4.0, 8.0, 60.0]
    assert in_flight_again(1, 90.0) == 90.0, "never sooner than the destination asks for"
