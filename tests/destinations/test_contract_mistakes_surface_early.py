"""Danger: a contract with a slip in it lets a forgotten key be sent again."""

from __future__ import annotations

import pickle
from datetime import date, timedelta
from typing import Any

import pytest

from effectlog.contract import (
    CAUTIOUS_HORIZON,
    EXAMPLE_OPERATION_ID,
    FOREVER,
    Destination,
    Verdict,
)
from effectlog.destinations import ALL, STRIPE, by_name
from effectlog.errors import ConfigurationError

DAY = timedelta(hours=24)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", None),
        ("retention", 86400),
        ("retention", "24h"),
        ("retention", timedelta(0)),
        ("retention", -DAY),
        ("margin", 60),
        ("margin", timedelta(seconds=-1)),
        ("settle", 2.0),
        ("settle", None),
        ("in_flight_wait", timedelta(seconds=-1)),
        ("max_key_length", 0),
        ("max_key_length", True),
        ("max_key_length", "64"),
        ("key_pattern", "[a-"),
        ("key_pattern", 7),
        ("failure_rule", "stored"),
        ("on_repeat", "replay"),
        ("key_in", "query"),
        ("checked_on", "November"),
        ("checked_on", 2026),
        ("classify", Verdict.UNKNOWN),
        ("existing", "id"),
    ],
)
def test_an_unusable_value_is_refused_and_named(field: str, value: Any) -> None:
    fields = {"name": "shop"} | {field: value}
    with pytest.raises(ConfigurationError, match=field) as refused:
        Destination(fields.pop("name"), **fields)
    assert refused.value.field == field


def test_a_margin_longer_than_the_retention_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="margin is longer than the retention"):
        Destination("shop", retention=timedelta(hours=1), margin=timedelta(hours=2))


def test_a_misspelt_override_names_the_fields_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"no field retension; its fields are name, .*retention"):
        STRIPE.replace(retension=DAY)


@pytest.mark.parametrize(
    ("contract", "horizon"),
    [
        (Destination("a", retention=DAY, margin=timedelta(hours=2)), timedelta(hours=22)),
        (Destination("b", retention=DAY), timedelta(hours=23)),
        (Destination("c", retention=timedelta(minutes=5)), timedelta(minutes=4, seconds=30)),
        (Destination("d", retention=timedelta(days=30)), timedelta(days=30) - timedelta(hours=1)),
        (Destination("e"), CAUTIOUS_HORIZON),
        (Destination("f", retention=FOREVER), None),
        (Destination("g", on_repeat="ignores"), None),
        (Destination("h", retention=DAY, margin=DAY), timedelta(0)),
    ],
    ids=lambda value: value.name if isinstance(value, Destination) else None,
)
def test_the_send_horizon_ends_before_the_key_is_forgotten(
    contract: Destination, horizon: timedelta | None
) -> None:
    assert contract.send_horizon() == horizon


def test_an_overridden_retention_takes_its_own_margin() -> None:
    assert STRIPE.replace(retention=timedelta(minutes=5)).send_horizon() == timedelta(minutes=4, seconds=30)
    chosen = Destination("shop", retention=DAY, margin=timedelta(minutes=1))
    assert chosen.replace(retention=2 * DAY).margin == timedelta(minutes=1)


@pytest.mark.parametrize(
    ("limits", "field"),
    [({"max_key_length": 35}, "max_key_length"), ({"key_pattern": "[0-9]+"}, "key_pattern")],
)
def test_an_operation_id_that_does_not_fit_is_refused(limits: dict[str, Any], field: str) -> None:
    contract = Destination("narrow", **limits)
    with pytest.raises(ConfigurationError, match=f"'narrow': {field} .*{EXAMPLE_OPERATION_ID}") as refused:
        contract.check_operation_id()
    assert refused.value.field == field


def test_the_pattern_is_matched_against_the_whole_key() -> None:
    with pytest.raises(ConfigurationError):
        Destination("hex", key_pattern="[0-9a-f-]+").check_operation_id(EXAMPLE_OPERATION_ID + "\n")


def test_keys_of_another_account_are_not_shared() -> None:
    live, test = STRIPE.replace(account="live"), STRIPE.replace(account="test")
    assert live.shares_keys_with(STRIPE.replace(account="live", retention=DAY))
    assert not live.shares_keys_with(test)
    assert not live.shares_keys_with(live.replace(name="stripe/v2"))


@pytest.mark.parametrize("contract", [*ALL, STRIPE.replace(retention=FOREVER)], ids=lambda c: c.name)
def test_the_stored_contract_is_the_declared_one(contract: Destination) -> None:
    stored = Destination.from_json(contract.to_json())
    assert stored == contract
    assert stored.send_horizon() == contract.send_horizon()
    assert stored.classify(ValueError()) is Verdict.UNKNOWN


def test_stored_data_of_a_later_version_still_loads_and_nonsense_does_not() -> None:
    assert Destination.from_json(STRIPE.to_json() | {"added_later": 1}) == STRIPE
    for nonsense in ({}, {"name": "x", "retention": "soon"}, {"name": "x", "on_repeat": None}):
        with pytest.raises(ConfigurationError):
            Destination.from_json(nonsense)


def test_a_contract_is_frozen_and_pickles() -> None:
    with pytest.raises(AttributeError):
        STRIPE.retention = DAY  # type: ignore[misc]
    custom = Destination("shop", retention=DAY, checked_on="2026-11")
    assert custom.checked_on == date(2026, 11, 1)
    assert pickle.loads(pickle.dumps(custom)) == custom


@pytest.mark.parametrize("contract", ALL, ids=lambda contract: contract.name)
def test_every_built_in_is_sourced_dated_and_takes_our_ids(contract: Destination) -> None:
    assert contract.source is not None
    assert contract.source.startswith("https://")
    assert isinstance(contract.checked_on, date)
    assert contract.checked_on >= date(2026, 11, 1)
    assert by_name(contract.name) is contract
    contract.check_operation_id()
    assert (contract.key_field is not None) == contract.deduplicates


def test_an_unknown_built_in_names_those_there_are() -> None:
    with pytest.raises(ConfigurationError, match="stripe/v1"):
        by_name("stripe")
    assert len({contract.name for contract in ALL}) == len(ALL) >= 20


def test_unpublished_retention_is_left_for_the_user_to_set() -> None:
    unknown = {contract.name for contract in ALL if contract.deduplicates and contract.retention is None}
    assert unknown == {"gocardless", "razorpay/payouts", "square/payments", "wise/transfers"}
    for name in unknown:
        assert by_name(name).send_horizon() == CAUTIOUS_HORIZON
        assert by_name(name).replace(retention=DAY).send_horizon() == timedelta(hours=23)
