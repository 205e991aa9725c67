"""Danger: a valid call is refused or bound differently, or a wrong one gets as far as the store."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectlog.errors import ConfigurationError
from effectlog.keys import Binder


def keyword_only(*, a): ...
def positional_only(a, /, b): ...
def variable(*xs, k=1): ...
def mixed(a, b=2, *, c, **kw): ...
def defaults(a=1): ...
def everything(a, /, b, c=3, *xs, d, e=5, **kw): ...
def nothing(): ...
def odd_names(self, cls, stand_in, function, args=(), kwargs=None): ...


@functools.wraps(mixed)
def wrapped(*args: Any, **kwargs: Any) -> None:
    pytest.fail("binding must not call the function")


class Service:
    def send(self, to, body="hi"): ...

    @classmethod
    def make(cls, name): ...


class Unreadable:
    __signature__ = "none"

    def __call__(self): ...


FUNCTIONS = [keyword_only, positional_only, variable, mixed, defaults, everything, nothing, odd_names]


@pytest.mark.parametrize(
    "call", [lambda b: b.bind((), {}), lambda b: b.bind((1,), {}), lambda b: b.bind((), {"a": 1})]
)
def test_every_spelling_of_a_call_binds_alike(call: Any) -> None:
    assert call(Binder(defaults)) == {"a": 1}


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(FUNCTIONS),
    st.lists(st.integers(), max_size=7).map(tuple),
    st.dictionaries(st.sampled_from([*"abcdekx", "xs", "kw", "self", "args"]), st.integers(), max_size=4),
)
def test_a_call_binds_as_python_binds_it_or_raises_its_very_error(
    function: Any, args: tuple[int, ...], kwargs: dict[str, int]
) -> None:
    binder = Binder(function)
    refusal = refusal_of(function, args, kwargs)
    assert refusal_of(lambda *a, **k: binder.bind(a, k), args, kwargs) == refusal
    if refusal is None:
        expected = inspect.signature(function).bind(*args, **kwargs)
        expected.apply_defaults()
        bound = binder.bind(args, kwargs)
        assert bound == expected.arguments
        assert list(bound) == list(expected.arguments)


def refusal_of(function: Any, args: tuple[int, ...], kwargs: dict[str, int]) -> str | None:
    try:
        function(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return None


def test_binding_never_calls_what_it_binds() -> None:
    binder = Binder(wrapped)
    assert binder.bind((1,), {"c": 3, "d": 4}) == {"a": 1, "b": 2, "c": 3, "kw": {"d": 4}}
    with pytest.raises(TypeError, match=r"mixed\(\) missing 1 required keyword-only argument: 'c'"):
        binder.bind((1,), {})


def test_self_is_left_out_and_counted_as_python_counts_it() -> None:
    binder = Binder(Service.send, skip_first=True)
    assert binder.first == "self"
    assert binder.parameters == ("to", "body")
    assert binder.defaults == {"body": "hi"}
    assert binder.bind(("ann",), {}) == {"to": "ann", "body": "hi"}
    for args in ((), (1, 2, 3)):
        with pytest.raises(TypeError) as own:
            binder.bind(args, {})
        with pytest.raises(TypeError) as pythons:
            Service().send(*args)
        assert str(own.value) == str(pythons.value)


def test_bound_methods_and_partials_bind_too() -> None:
    assert Binder(Service.make).bind(("a",), {}) == {"name": "a"}
    assert Binder(Service().send).bind(("a",), {}) == {"to": "a", "body": "hi"}
    assert Binder(functools.partial(mixed, 1, c=3)).bind((), {}) == {"b": 2, "c": 3, "kw": {}}


def test_defaults_are_the_declared_objects() -> None:
    shared: list[int] = []

    def function(items=shared, *, more=shared): ...

    bound = Binder(function).bind((), {})
    assert bound["items"] is shared
    assert bound["more"] is shared


def test_a_misspelt_parameter_name_is_refused() -> None:
    binder = Binder(mixed)
    binder.require(("a", "kw"), "ignore=", "mixed")
    with pytest.raises(ConfigurationError, match=r"mixed: ignore= names sesion, .* a, b, c, kw"):
        binder.require(("sesion",), "ignore=", "mixed")


def test_a_callable_without_a_signature_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="signature"):
        Binder(Unreadable())
