"""Danger: rows that a released version wrote can't be read, or no longer match, after an upgrade.

``released.json`` holds one stored form and one fingerprint per kind of value. Lines are added and never
changed: a change that makes this file fail breaks the runs of everyone who upgrades.
"""

from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict, defaultdict
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from codec_samples import Address, Colour, Event, Item, Money, Order, Pair, Point, Rights, Size

from effectlog.codec import JsonCodec, fingerprint
from effectlog.codec.decode import _BUILDERS

FILE = Path(__file__).parents[1] / "fixtures" / "codec" / "released.json"
RELEASED: dict[str, dict[str, str]] = json.loads(FILE.read_text("ascii"))

order = Order("A-1", [Item("pen", Decimal("1.10"), ["x"])], note="n")
extended = Order("A-2", [])
extended.extra = 1  # type: ignore[attr-defined]

VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "integer": 42,
    "largest plain integer": 2**63 - 1,
    "int": 2**63,
    "negative int": -(10**30),
    "float": 0.1,
    "large float": 1e22,
    "negative zero": -0.0,
    "infinity": -math.inf,
    "text": 'a"\\/\n\x00\x7f',
    "text outside ascii": "é\u2028\U0001f600",
    "lone surrogates": "\ud83d\ude00",
    "bytes": b"\x00\xff",
    "list": [1, [2.5, "x"]],
    "dict": {"b": 1, "a": {"c": None}},
    "dict with other keys": {1: "a", (2, None): b"b", "!": 3},
    "tuple": (1, (2,)),
    "set": {1, "a", (2.5,)},
    "frozenset": frozenset({1, 2}),
    "counter": Counter(a=2),
    "ordereddict": OrderedDict([("b", 1), ("a", 2)]),
    "defaultdict": defaultdict(list, {"a": [1]}),
    "datetime": datetime(2026, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 - naive ones are kept as well
    "datetime utc": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "datetime offset": datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=-3, minutes=-30), "NST")),
    "datetime zone": datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Paris")),
    "date": date(2026, 1, 2),
    "time": time(3, 4, 5, 6, tzinfo=UTC),
    "timedelta": timedelta(days=-1, microseconds=3),
    "decimal": Decimal("1.10"),
    "uuid": UUID("12345678-1234-5678-1234-567812345678"),
    "enum": Colour.RED,
    "int enum": Size.LARGE,
    "flag": Rights.READ | Rights.WRITE,
    "namedtuple": Point(1, Pair(2, 3)),
    "dataclass": order,
    "dataclass with another attribute": extended,
    "slotted dataclass": Money(cents=5),
    "struct": Event("e", Money(cents=1)),
    "model": Address(street="Rue", zip="75"),
    "unset": msgspec.UNSET,
}


@pytest.mark.parametrize("name", RELEASED)
def test_a_released_row_still_decodes(name: str) -> None:
    restored = JsonCodec().decode(RELEASED[name]["stored"].encode("ascii"))
    assert type(restored) is type(VALUES[name])
    assert repr(restored) == repr(VALUES[name]) or restored == VALUES[name]


@pytest.mark.parametrize("name", RELEASED)
def test_a_released_fingerprint_is_still_the_same(name: str) -> None:
    assert fingerprint(VALUES[name]) == RELEASED[name]["fingerprint"]


def test_every_kind_of_value_has_a_released_row() -> None:
    assert RELEASED.keys() == VALUES.keys()
    stored = "".join(row["stored"] for row in RELEASED.values())
    assert {tag for tag in _BUILDERS if f'"!":"{tag}"' not in stored} == set()
