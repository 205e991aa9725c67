"""Danger: an object comes back as a dict, as another class, or changed by its own constructor."""

from __future__ import annotations

import re
import sys
import types
from dataclasses import dataclass, field, make_dataclass
from typing import Annotated, Any, NewType, Union

import codec_samples
import pytest
from codec_samples import (
    Address,
    Bits,
    Box,
    Colour,
    Counting,
    Event,
    Item,
    Level,
    Money,
    Order,
    Outer,
    Page,
    Pair,
    Person,
    Point,
    Rights,
    Size,
)

from effectlog.codec import JsonCodec, classes, register
from effectlog.errors import DecodingError

codec = JsonCodec()


@pytest.fixture(autouse=True)
def own_registrations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "_registered", {})


def back(value: object, annotation: Any = None) -> Any:
    return codec.decode(codec.encode(value), annotation)


@pytest.mark.parametrize(
    "value",
    [
        Colour.RED,
        Colour.BLUE,
        Size.LARGE,
        Level.LOW,
        Rights.READ | Rights.WRITE,
        Rights(0),
        Bits(1 | 8),
        Point(1, (2,)),
        Pair(1, {2}),
        Item("a", tags=["x"]),
        Order("1", [Item("a", price=Money(cents=5))], note=Item("b")),
        Order("1", [], note="text"),
        Outer.Inner(1),
        Box[int](1),
        Page[int](items=[1]),
        Event("e", Money(cents=1)),
        Event("e", extra=None),
        Address(Street="Rue", zip="75"),
        Person(name="Ann", address=Address(street="Rue", city="Lyon")),
        {Colour.RED: Money(cents=1), Money(cents=2): 1},
    ],
    ids=lambda value: re.sub(r" at 0x\w+", "", repr(value)),
)
def test_objects_come_back_as_their_class(value: object) -> None:
    restored = back([value])[0]
    assert type(restored) is type(value)
    assert restored == value
    assert repr(restored) == repr(value)


def test_enum_members_come_back_as_the_very_member() -> None:
    assert back(Colour.CRIMSON) is Colour.RED
    assert back(Size.SMALL) is Size.SMALL


def test_rebuilding_a_dataclass_calls_no_hook() -> None:
    order = Order("1", [Item("a")])
    order.total = 7
    Order.calls.clear()
    assert back(order).total == 7
    assert Order.calls == []
    too_much = object.__new__(Money)
    object.__setattr__(too_much, "cents", 10**10)
    object.__setattr__(too_much, "currency", "EUR")
    assert back(too_much) == too_much


def test_attributes_beyond_the_fields_are_kept() -> None:
    order = Order("1", [])
    assert order.label == "order 1"
    order.private = {1}  # type: ignore[attr-defined]
    assert vars(back(order)) == vars(order)


def test_an_unset_field_stays_unset() -> None:
    order = Order("1", [])
    del order.total
    assert not hasattr(back(order), "total")


def test_rebuilding_a_model_does_not_validate_again() -> None:
    person = back(Person(name="Ann"))
    assert person.name == "Ann!"
    assert person.model_fields_set == {"name"}


def test_a_model_keeps_extra_private_and_unset_state() -> None:
    address = Address(street="Rue", zip="75")
    address._cache["a"] = 1
    restored = back(address)
    assert restored == address
    assert restored._cache == {"a": 1}
    assert restored.model_extra == {"zip": "75"}
    assert restored.model_fields_set == {"street", "zip"}


def test_a_struct_hook_does_not_change_the_stored_state() -> None:
    assert back(Counting(1)).count == 2


def test_a_class_is_found_by_annotation_when_its_module_is_not_imported() -> None:
    data = codec.encode(Item("a")).replace(b"codec_samples:", b"__main__:")
    alias = NewType("alias", Item)
    optional = Union[Item, None]  # noqa: UP007 - the spelling is the case
    nested = dict[str, tuple[Item, ...]]
    for annotation in (Item, optional, Item | None, list[Item], nested, Annotated[Item, "x"], alias):
        assert codec.decode(data, annotation) == Item("a")
    with pytest.raises(DecodingError, match="__main__:Item"):
        codec.decode(data, list[Order])


def test_decoding_never_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "this" not in sys.modules
    lazy, looked_up = types.ModuleType("lazy"), []

    def load(name: str) -> Any:
        looked_up.append(name)
        raise AttributeError(name)

    lazy.__getattr__ = load  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "lazy", lazy)
    for name in (b"this:Zen", b"lazy:Thing", b"lazy:a.b", b"", b":", b"sys:modules", b"no_such:Name"):
        with pytest.raises(DecodingError, match="import its module"):
            codec.decode(b'{"!":"object","c":"' + name + b'","v":{}}')
    assert "this" not in sys.modules
    assert not {"Thing", "a"} & set(looked_up)


@pytest.mark.parametrize("name", [b"subprocess:Popen", b"builtins:dict", b"codec_samples:TextKind"])
@pytest.mark.parametrize("tag", [b"object", b"enum", b"namedtuple"])
def test_only_storable_classes_are_ever_built(name: bytes, tag: bytes) -> None:
    with pytest.raises(DecodingError, match="not a dataclass"):
        codec.decode(b'{"!":"' + tag + b'","c":"' + name + b'","v":{}}')


def test_a_moved_class_is_found_by_its_alias() -> None:
    data = codec.encode(Item("a")).replace(b"codec_samples:Item", b"old.place:Thing")
    with pytest.raises(DecodingError, match=r"old\.place:Thing"):
        codec.decode(data)
    register(Item, "old.place:Thing")
    assert codec.decode(data) == Item("a")


def redefined(monkeypatch: pytest.MonkeyPatch, *fields: Any) -> None:
    changed = make_dataclass("Item", fields)
    changed.__module__ = "codec_samples"
    monkeypatch.setattr(codec_samples, "Item", changed)


def test_a_field_added_since_takes_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    data = codec.encode(Item("a"))
    redefined(monkeypatch, "name", "price", "tags", ("new", list, field(default_factory=list)))
    assert codec.decode(data).new == []


def test_a_field_without_default_added_since_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = codec.encode(Item("a"))
    redefined(monkeypatch, "name", "price", "tags", "new")
    with pytest.raises(DecodingError, match=r"'new'.*default"):
        codec.decode(data)


def test_a_field_removed_since_is_refused_and_not_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    data = codec.encode([Item("a")])
    redefined(monkeypatch, "name", "tags")
    with pytest.raises(DecodingError, match=r"price.*\[0\]"):
        codec.decode(data)


def test_a_member_removed_since_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = codec.encode(Size.LARGE).replace(b"LARGE", b"HUGE")
    with pytest.raises(DecodingError, match="HUGE"):
        codec.decode(data)


def test_an_object_of_a_reloaded_class_is_still_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Item("a")

    @dataclass
    class Item2(Item): ...

    Item2.__qualname__, Item2.__module__ = "Item", "codec_samples"
    monkeypatch.setattr(codec_samples, "Item", Item2)
    assert type(back(before)) is Item2
