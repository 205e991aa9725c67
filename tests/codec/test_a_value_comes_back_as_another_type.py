"""Danger: a value comes back as another type or with other content, and a replay takes another path."""

from __future__ import annotations

import math
import re
import uuid
from collections import Counter, OrderedDict, defaultdict
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectlog.codec import JsonCodec
from effectlog.errors import EncodingError

codec = JsonCodec()


def same(left: object, right: object) -> bool:
    """Equal in value and in every type inside; order counts for dicts."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return math.isnan(left) == math.isnan(right) and (
            math.isnan(left) or (left == right and math.copysign(1, left) == math.copysign(1, right))
        )
    if isinstance(left, dict):
        return same(list(left), list(right)) and same(list(left.values()), list(right.values()))
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, (set, frozenset)):
        return len(left) == len(right) and all(any(same(a, b) for b in right) for a in left)
    if isinstance(left, Decimal):
        return left.as_tuple() == right.as_tuple()
    if isinstance(left, (datetime, time)):
        zones = left.tzinfo, right.tzinfo
        names = [zone and (type(zone), str(zone)) for zone in zones]
        return left == right and names[0] == names[1] and left.fold == right.fold
    return left == right


def has_hash(value: object) -> bool:
    try:
        hash(value)
    except TypeError:  # a signalling NaN
        return False
    return True


text = st.text(st.characters(exclude_categories=()))  # lone surrogates and NUL too
zones = st.none() | st.timezones() | st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, -(10**400)])
    | st.floats()
    | text
    | st.binary()
    | st.dates()
    | st.datetimes(timezones=zones, allow_imaginary=False)
    | st.times()
    | st.timedeltas()
    | st.decimals()
    | st.uuids()
)
keys = st.recursive(scalars, lambda inner: st.tuples(inner, inner), max_leaves=3)
hashable = keys.filter(has_hash)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.dictionaries(text | st.just("!"), inner, max_size=4)
        | st.sets(hashable, max_size=3)
        | st.frozensets(hashable, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(values)
def test_every_value_comes_back_as_it_was(value: object) -> None:
    data = codec.encode(value)
    assert data.isascii()
    assert b"\x00" not in data
    assert same(codec.decode(data), value)
    assert codec.encode(codec.decode(data)) == data


@settings(max_examples=200, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_keeps_its_last_bit(value: float) -> None:
    assert codec.decode(codec.encode(value)).hex() == value.hex()


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("ch_1", b'"ch_1"'),
        ({"id": "ch_1", "n": 5}, b'{"id":"ch_1","n":5}'),
        ([1, 2.5, True, None], b"[1,2.5,true,null]"),
        ("é", b'"\\u00e9"'),
        ("a\x00b", b'"a\\u0000b"'),
    ],
)
def test_plain_values_stay_readable(value: object, stored: bytes) -> None:
    assert codec.encode(value) == stored
    assert codec.decode(stored) == value


@pytest.mark.parametrize(
    "value",
    [
        {1: "ok", "1": "text", (1, "a"): None, None: 0, 1.5: b""},
        {"!": "set", "v": [1]},
        {"a": {"!": {"!": 1}}},
        "\ud800\udc00",  # two lone surrogates, which JSON would join
        {"\ud800": "\x00"},
        Counter({"a": 2, "b": 0}),
        OrderedDict([("b", 1), ("a", 2)]),
        -0.0,
        {"x": math.nan, "y": math.inf, "z": -math.inf},
        10**400,
        datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Paris")),
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, seconds=1), "odd")),
        datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
        time(1, 2, 3, 4, tzinfo=UTC, fold=1),
        date.max,
        timedelta.min,
        Decimal("1.10"),
        Decimal("-NaN"),
        uuid.UUID(int=1),
        (),
        ((),),
        set(),
        frozenset({frozenset()}),
    ],
    ids=lambda value: re.sub(r" at 0x\w+", "", repr(value)),
)
def test_values_that_json_bends_are_kept(value: object) -> None:
    assert same(codec.decode(codec.encode(value)), value)


def test_an_integer_longer_than_python_prints_is_kept() -> None:
    value = -(10**5000) + 7
    assert codec.decode(codec.encode({value: value})) == {value: value}


def test_a_default_factory_is_kept_or_refused() -> None:
    restored = codec.decode(codec.encode(defaultdict(list, {1: [2]})))
    assert restored == {1: [2]}
    assert restored["new"] == []
    assert codec.decode(codec.encode(defaultdict(None, a=1))).default_factory is None
    with pytest.raises(EncodingError, match="factory"):
        codec.encode(defaultdict(lambda: 0))


def test_a_foreign_fixed_offset_keeps_instant_and_name() -> None:
    class Foreign(timezone.__base__):
        def utcoffset(self, _: datetime | None) -> timedelta:
            return timedelta(hours=2)

        def tzname(self, _: datetime | None) -> str:
            return "FOO"

        def dst(self, _: datetime | None) -> None:
            return None

    moment = datetime(2026, 1, 1, tzinfo=Foreign())
    restored = codec.decode(codec.encode(moment))
    assert restored == moment
    assert restored.tzinfo == timezone(timedelta(hours=2), "FOO")
    assert restored.tzname() == "FOO"


def test_a_zone_that_cannot_be_found_again_is_refused() -> None:
    class Changing(timezone.__base__):
        def utcoffset(self, moment: datetime | None) -> timedelta | None:
            return moment and timedelta(0)

    with pytest.raises(EncodingError, match="zoneinfo"):
        codec.encode(datetime(2026, 1, 1, tzinfo=Changing()))
