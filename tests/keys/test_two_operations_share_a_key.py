"""Danger: two operations share a key, or one operation has another key in the next process."""

from __future__ import annotations

import enum
import threading
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from codec_samples import Address, Colour, Event, Item, Level, Size

from effectlog.errors import KeyTemplateError
from effectlog.keys import Binder, KeyTemplate

if TYPE_CHECKING:
    from collections.abc import Callable


class Mixed(str, enum.Enum):  # noqa: UP042 - the older kind is the case
    A = "a"


class Plain:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class Named(Plain):
    def __str__(self) -> str:
        return f"named {self.name}"


@dataclass
class Tagged:
    name: str
    tags: Any = None
    lock: Any = field(default=None, repr=False)


def send(order, items=(), note="x", **kw): ...


BINDER = Binder(send)


def template(text: str | Callable[..., Any], function: Any = send) -> KeyTemplate:
    return KeyTemplate(text, function, Binder(function).parameters)


def key(text: str | Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    return template(text).render(BINDER.bind(args, kwargs), args, kwargs)


@pytest.mark.parametrize(
    ("text", "order", "expected"),
    [
        ("charge", None, "charge"),
        ("charge:{order}", "A-1", "charge:A-1"),
        ("{{{order}}}", "A-1", "{A-1}"),
        ("{order}{note}", "", "x"),
        ("{order.id}", Plain(id=7), "7"),
        ("{order.address.city}", Plain(address=Plain(city="Lyon")), "Lyon"),
        ("{order[0]}", [5], "5"),
        ("{order[id]}", {"id": 5}, "5"),
        ("{order.lines[1].sku}", Plain(lines=[0, Plain(sku="s")]), "s"),
        ("{order:05d}", 42, "00042"),
        ("{order!r}", "a", "'a'"),
        ("{order}", 1, "1"),
        ("{order}", "1", "1"),
        ("{order}", True, "True"),
        ("{order}", 1.5, "1.5"),
        ("{order}", 10**400, str(10**400)),
        ("{order}", UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ("{order}", Decimal("1.10"), "1.10"),
        ("{order}", date(2026, 1, 2), "2026-01-02"),
        ("{order:%Y}", date(2026, 1, 2), "2026"),
        ("{order}", Level.LOW, "low"),
        ("{order}", Size.LARGE, "2"),
        ("{order}", Colour.RED, "Colour.RED"),
        ("{order}", Mixed.A, "Mixed.A"),
        ("{order}", (1, "a"), "(1, 'a')"),
        ("{order}", "in the text at 0x1f", "in the text at 0x1f"),
        ("{order}", ["in a list at 0x1f"], "['in a list at 0x1f']"),
        ("{order}", Named(name="a"), "named a"),
        ("{order}", Tagged("a", lock=threading.Lock()), "Tagged(name='a', tags=None)"),
        ("{order}", Event("e"), "Event(name='e', money=None, extra=UNSET)"),
    ],
)
def test_a_template_renders_as_str_format_does(text: str, order: object, expected: str) -> None:
    assert key(text, order) == expected


def test_one_call_spelt_three_ways_has_one_key() -> None:
    def f(a=1): ...

    made = KeyTemplate("k:{a}", f, ("a",))
    binder = Binder(f)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [((), {}), ((1,), {}), ((), {"a": 1})]
    assert {made.render(binder.bind(*call), *call) for call in calls} == {"k:1"}


def test_a_dict_that_was_filled_in_another_order_has_the_same_key() -> None:
    assert key("{order}", {"b": 2, "a": 1}) == key("{order}", {"a": 1, "b": 2}) == "{'a': 1, 'b': 2}"
    nested = [{2: {"y": 0, "x": 0}, "1": ({"d": 0, "c": 0},)}]
    assert key("{order!r}", nested) == "[{'1': ({'c': 0, 'd': 0},), 2: {'x': 0, 'y': 0}}]"
    ordered = OrderedDict(b=2, a=1)  # Its order is a part of what it says.
    assert key("{order}", ordered) == str(ordered)


def test_a_dict_whose_order_an_object_shows_is_refused() -> None:
    tags = {"b": 2, "a": 1}
    for value in (Tagged("a", tags=tags), defaultdict(int, tags), [Tagged("a", tags=[tags])]):
        with pytest.raises(KeyTemplateError, match="the order in which it was filled"):
            key("{order}", value)
    assert key("{order.tags[b]}", Tagged("a", tags=tags)) == "2"
    assert key("{order}", Tagged("a", tags={"b": 2})) == "Tagged(name='a', tags={'b': 2})"


def test_keyword_only_calls_have_keys_of_their_own() -> None:
    def f(*, to, body): ...

    made, binder = KeyTemplate("mail:{to}", f, ("to", "body")), Binder(f)
    assert [made.render(binder.bind((), {"to": to, "body": ""}), (), {}) for to in "ab"] == [
        "mail:a",
        "mail:b",
    ]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("{unknown}", r"\{unknown\}.*\(order, items, note, kw\)"),
        ("{order}:{odrer.id}", r"\{odrer\.id\}"),
        ("{}", "name the parameter"),
        ("{0}", "name the parameter"),
        ("{0.id}", "name the parameter"),
        ("{order", "can't be read"),
        ("order}", "can't be read"),
        ("{order[0}", "can't be read"),
        ("{order.}", "can't be read"),
        ("{order!z}", "can't be used"),
        ("{order:{note}}", "can't be used"),
        ("static\x00", "NUL"),
        ("x" * 513, "513"),
        (None, "neither"),
    ],
)
def test_a_template_that_can_never_work_is_refused_at_decoration(text: Any, named: str) -> None:
    with pytest.raises(KeyTemplateError, match=named) as caught:
        template(text)
    assert str(caught.value).startswith("send: ")
    assert vars(caught.value)["function"] == "send"


def test_the_error_of_a_function_without_parameters_says_so() -> None:
    def bare(): ...

    with pytest.raises(KeyTemplateError, match="it has none"):
        template("{a}", bare)


@pytest.mark.parametrize(
    ("order", "named"),
    [
        (Plain(), "memory address"),
        ([Plain()], "memory address"),
        ({"a": (1, [Plain()])}, "memory address"),
        (lambda: 1, "memory address"),
        ((lambda: 1, "first"), "memory address"),
        (threading.Lock(), "memory address"),
        (Tagged("a", tags=Plain()), "memory address"),
        ({1, 2}, "set"),
        (frozenset("ab"), "set"),
        ([{"a": {1}}], "set"),
        (Tagged("a", tags={1}), "set"),
        (Item("a", price={1}), "set"),
        (Event("a", extra={1}), "set"),
        (Address(street="a", city="b").model_construct(city={1}), "set"),
        ((number for number in [1]), "memory address"),
    ],
)
def test_a_value_without_stable_text_is_refused(order: object, named: str) -> None:
    with pytest.raises(KeyTemplateError, match=named) as caught:
        key("charge:{order}", order)
    assert "{order}" in str(caught.value)
    assert "{order.id}" in str(caught.value)


@pytest.mark.parametrize("order", ["", " ", "a\x00b", "\ud800", "x" * 513])
def test_a_key_that_no_store_can_hold_is_refused(order: str) -> None:
    with pytest.raises(KeyTemplateError, match=r"^send: its key"):
        key("{order}", order)


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("{order.id}", None),
        ("{order[0]}", []),
        ("{order[x]}", {}),
        ("{order:d}", "text"),
        ("{order}", [10**5000]),
    ],
)
def test_a_field_that_fails_names_function_and_field(text: str, order: object) -> None:
    with pytest.raises(KeyTemplateError, match=r"send: the field \{order") as caught:
        key(text, order)
    assert caught.value.__cause__ is not None


def test_self_is_used_only_where_the_template_names_it() -> None:
    def method(self, a): ...

    binder = Binder(method, skip_first=True)
    assert KeyTemplate("m:{a}", method, binder.parameters).fields == {"a"}
    with_self = KeyTemplate("{self.account}:{a}", method, ("self", *binder.parameters))
    assert with_self.fields == {"self", "a"}
    arguments = {"self": Plain(account="acc"), **binder.bind((1,), {})}
    assert with_self.render(arguments, (1,), {}) == "acc:1"


def test_a_callable_gets_the_arguments_of_the_call() -> None:
    seen: list[Any] = []

    def make(*args: Any, **kwargs: Any) -> str:
        seen.append((args, kwargs))
        return "k"

    assert key(make, 1, note="y") == "k"
    assert seen == [((1,), {"note": "y"})]


@pytest.mark.parametrize(
    "result",
    [None, 1, b"k", "", " ", "a\x00", "\udc00", "x" * 513, f"k:{Plain()}"],
    ids=lambda value: (
        type(value).__name__
    ),  # The text of an object holds an address, and differs in each process.
)
def test_a_callable_must_return_a_key(result: object) -> None:
    with pytest.raises(KeyTemplateError, match=r"^send: its key"):
        key(lambda *_args, **_kwargs: result, 1)


def test_an_async_callable_is_refused() -> None:
    async def make(*_args: Any) -> str:
        return "k"

    with pytest.raises(KeyTemplateError, match="not async"):
        template(make)
    with pytest.raises(KeyTemplateError, match="coroutine"):
        key(lambda *args: make(*args), 1)  # noqa: PLW0108 - hides that it is async


def test_what_a_callable_raises_is_the_cause_of_an_error_that_names_the_function() -> None:
    with pytest.raises(
        KeyTemplateError, match=r"^send: its key callable raised KeyError: 'missing'$"
    ) as caught:
        key(lambda order: order["missing"], {})
    assert isinstance(caught.value.__cause__, KeyError)
