"""Danger: a value applied by a person or a look-up reaches the task as another type than declared."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from codec_samples import Address, Colour, Counting, Item, Level, Money, Person, Size

from effectlog.codec import convert, return_annotation
from effectlog.errors import DecodingError


class Plain:
    pass


plain = Plain()


@pytest.mark.parametrize(
    ("value", "annotation", "expected"),
    [
        ("ch_1", str, "ch_1"),
        ("ch_1", Any, "ch_1"),
        ({"a": [1]}, Any, {"a": [1]}),
        (None, None, None),
        (None, type(None), None),
        (None, str | None, None),
        ([1, 2], tuple[int, int], (1, 2)),
        ([1, 2], set[int], {1, 2}),
        ("2026-01-02T03:04:05Z", datetime, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("1.10", Decimal, Decimal("1.10")),
        ("12345678-1234-5678-1234-567812345678", UUID, UUID("12345678-1234-5678-1234-567812345678")),
        ("red", Colour, Colour.RED),
        ("BLUE", Colour, Colour.BLUE),
        ([Colour.BLUE, "red"], list[Colour], [Colour.BLUE, Colour.RED]),
        ({"a": [{"cents": 1}]}, dict[str, list[Money | Counting]], {"a": [Money(cents=1)]}),
        ({1: "a"}, dict[int, str], {1: "a"}),
        (2, Size, Size.LARGE),
        ("low", Level, Level.LOW),
        ("a", Literal["a", "b"], "a"),
        ({"1": "a"}, dict[int, str], {1: "a"}),
        ({"cents": 5}, Money, Money(cents=5)),
        ([{"name": "a"}], list[Item], [Item("a")]),
        ({"cents": 5}, Annotated[Money | None, "x"], Money(cents=5)),
        ({"Street": "Rue"}, Address, Address(street="Rue")),
        ([{"name": "Ann"}], list[Person], [Person(name="Ann")]),
        ({"Street": "Rue"}, Address | Money, Address(street="Rue")),
        ({"cents": 5}, Money | Counting, Money(cents=5)),
        (Counting(1), Money | Counting, Counting(1)),
        (plain, Plain, plain),
        (plain, Plain | str, plain),
        ("a", Plain | str, "a"),
        ("x", "Unresolved", "x"),
    ],
    ids=lambda value: re.sub(r" at 0x\w+", "", repr(value)),
)
def test_a_value_is_converted_to_what_was_declared(value: Any, annotation: Any, expected: Any) -> None:
    converted = convert(value, annotation)
    assert converted == expected
    assert type(converted) is type(expected)


def test_a_value_that_already_fits_stays_the_same_object() -> None:
    for value in (Money(cents=1), Person(name="Ann"), Counting(1), Item("a")):
        assert convert(value, type(value)) is value


@pytest.mark.parametrize(
    ("value", "annotation", "named"),
    [
        ("x", int, "int"),
        (None, str, "str"),
        ("x", None, "null"),
        ({"cents": "five"}, Money, r"Money.*cents"),
        ({}, Money, "cents"),
        ({"name": 1}, Person, "Person"),
        ("purple", Colour, "purple"),
        ([1, "x"], list[int], r"\$\[1\]"),
        ({}, Plain, "Plain"),
        ({}, Plain | int, "Plain"),
        ([{"cents": "x"}], list[Money | Counting], "cents"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_and_named(value: Any, annotation: Any, named: str) -> None:
    with pytest.raises(DecodingError, match=named) as caught:
        convert(value, annotation)
    assert "does not fit" in str(caught.value)


def declared() -> Money | None: ...
def unresolved() -> Missing: ...  # type: ignore[name-defined]  # noqa: F821
def undeclared(): ...
async def asynchronous() -> list[Item]: ...


def test_a_return_annotation_is_resolved_or_unknown() -> None:
    assert return_annotation(declared) == Money | None
    assert return_annotation(unresolved) is Any
    assert return_annotation(undeclared) is Any
    assert return_annotation(asynchronous) == list[Item]
    assert return_annotation(len) is Any
