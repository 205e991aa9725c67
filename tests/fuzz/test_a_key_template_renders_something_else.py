"""Danger: a key template that is half understood gives two operations one key, or one operation two."""

from __future__ import annotations

import copy
import datetime as dt
import decimal
import enum
import uuid
from dataclasses import dataclass
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from effectlog.errors import KeyTemplateError
from effectlog.keys import KeyTemplate


class Colour(enum.Enum):
    RED = "red"


@dataclass(frozen=True)
class Order:
    id: str
    lines: tuple[Any, ...]


def owner(a: Any, b: Any, c_d: Any) -> None: ...


plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=4)
    | st.sampled_from(
        [decimal.Decimal("1.50"), uuid.UUID(int=7), dt.date(2026, 11, 1), Colour.RED, "x" * 600]
    )
    | st.sampled_from(["", " ", "\x00", "\ud800", "a:b", "{a}"])
)
values = st.recursive(
    plain | st.builds(object) | st.sets(st.text(max_size=3), max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=2)
        | st.builds(Order, st.text(max_size=5), st.lists(inner, max_size=2).map(tuple))
    ),
    max_leaves=5,
)
accesses = st.sampled_from(
    ["", "", "", ".id", ".lines", "[0]", "[id]", ".x.y", "[", ".", "[]", "[-1]", ".__class__"]
)
formats = st.sampled_from(["", "", "", "!r", "!s", "!a", "!x", ":>8", ":.2f", ":x", ":{b}", ":%Y", "!r:>4"])
fields = st.builds(
    "{{{}{}{}}}".format,
    st.sampled_from(["a", "a", "b", "c_d", "e", "", "0", "a b", "self"]),
    accesses,
    formats,
)
literals = st.text(max_size=4) | st.sampled_from(["charge:", "{{", "}}", "{", "}", ":", "\x00"])
templates = st.lists(fields | literals, min_size=1, max_size=4).map("".join)


def ordered(value: Any) -> Any:
    """The same, with dicts filled in the order of their keys: that is how a key shows them."""
    if isinstance(value, dict):
        return {key: ordered(value[key]) for key in sorted(value, key=repr)}
    if isinstance(value, Order):
        return Order(value.id, ordered(value.lines))
    return type(value)(map(ordered, value)) if isinstance(value, list | tuple) else value


@settings(max_examples=150, deadline=None)
@given(template=templates, a=values, b=values, c_d=values)
def test_a_key_is_what_format_says_or_is_refused_by_name(template: str, a: Any, b: Any, c_d: Any) -> None:
    arguments = {"a": a, "b": b, "c_d": c_d}
    try:
        found = KeyTemplate(template, owner, arguments)
        key = found.render(arguments, (), arguments)
    except KeyTemplateError as error:
        reason = str(error)
        assert reason.startswith("owner: ")
        return
    event("rendered")
    assert key == template.format(**ordered(arguments))
    assert key.strip()
    assert "\x00" not in key
    assert len(key.encode("utf-8")) >= len(key)  # A lone surrogate would not encode.
    again = copy.deepcopy(arguments)
    assert found.render(again, (), again) == key, "the same call has another key the next time"
