"""Danger: a changed argument goes unnoticed, a harmless one conflicts, or an operation changes its id."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectlog.errors import EncodingError
from effectlog.keys import Binder, differing, fingerprints, new_run_id, operation_id
from effectlog.keys.identity import _NAMESPACE

NONE: frozenset[str] = frozenset()


def prints(**arguments: Any) -> dict[str, str]:
    return fingerprints(arguments, NONE, owner="send")


def test_the_parameters_that_differ_are_named() -> None:
    assert differing(prints(a=1, b=2), prints(a=1, b=2), {}) == []
    assert differing(prints(a=1, b=2), prints(a=1, b=3), {}) == ["b"]
    assert differing(prints(a=1, b="1"), prints(a="1", b=1), {}) == ["a", "b"]


def test_a_parameter_that_one_side_lacks_counts_as_its_default() -> None:
    defaults = prints(currency="EUR")
    assert differing(prints(a=1), prints(a=1, currency="EUR"), defaults) == []
    assert differing(prints(a=1), prints(a=1, currency="USD"), defaults) == ["currency"]
    assert differing(prints(a=1, currency="EUR"), prints(a=1), defaults) == []
    assert differing(prints(a=1), prints(a=1, b=2), {}) == ["b"]
    assert differing(prints(a=1, b=2), prints(a=1), {}) == ["b"]


def test_an_ignored_argument_does_not_count_however_it_is_passed() -> None:
    def send(to, session=None): ...

    binder = Binder(send)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        (("a", object()), {}),
        (("a",), {"session": object()}),
        (("a",), {}),
    ]
    found = [fingerprints(binder.bind(*call), frozenset({"session"}), owner="send") for call in calls]
    assert found[0] == found[1] == found[2] == prints(to="a")


def test_variable_arguments_count() -> None:
    def send(*xs, **kw): ...

    binder = Binder(send)
    first = fingerprints(binder.bind((1,), {"b": 1, "a": 2}), NONE, owner="send")
    assert first == fingerprints(binder.bind((1,), {"a": 2, "b": 1}), NONE, owner="send")
    assert differing(first, fingerprints(binder.bind((1, 2), {"b": 1, "a": 2}), NONE, owner="send"), {}) == [
        "xs"
    ]


@pytest.mark.parametrize("value", [object(), lambda: 1, [1, {"a": object()}], (number for number in [1])])
def test_an_argument_without_fingerprint_is_refused_and_explained(value: object) -> None:
    with pytest.raises(EncodingError) as caught:
        fingerprints({"to": "a", "session": value}, NONE, owner="Mail.send")
    message = str(caught.value)
    assert message.startswith("Mail.send: its argument 'session'")
    assert "ignore=('session',)" in message
    assert vars(caught.value)["type_name"] in message
    assert vars(caught.value)["parameter"] == "session"


def test_an_operation_id_never_changes() -> None:
    assert operation_id("run", "charge:A-1") == "6194a207-0f9b-5950-951a-ea396bbd75db"
    assert operation_id("run", "charge:A-1", 1) == "4e1d4d8c-e7c0-5d21-a70b-3df1b0ed18ed"


@settings(max_examples=50, deadline=None)
@given(st.text(), st.text(st.characters(codec="utf-8")), st.integers(0, 5))
def test_an_operation_id_is_a_name_based_uuid(run_id: str, key: str, generation: int) -> None:
    run_id = run_id.encode("ascii", "replace").decode()
    name = f"{len(run_id)}:{run_id}{len(key)}:{key}{generation}"
    assert operation_id(run_id, key, generation) == str(uuid.uuid5(uuid.UUID(bytes=_NAMESPACE), name))


def test_the_parts_of_an_operation_id_cannot_run_together() -> None:
    parts: list[tuple[str, str, int]] = [
        ("a", "b1", 0), ("a", "b", 10), ("ab", "1", 0), ("a", "b", 1), ("", "ab1", 0), ("a1:", "b", 0),
        ("a", "1:b", 0), ("1:a", "b", 0),
    ]  # fmt: skip
    assert len({operation_id(*each) for each in parts}) == len(parts)


def test_run_ids_are_uuid7_unique_and_sort_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [new_run_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    parsed = uuid.UUID(ids[0])
    assert (parsed.version, parsed.variant, len(ids[0])) == (7, uuid.RFC_4122, 36)
    moments = [0, 245, 1_000_000, 1_000_500, 1_700_000_000_000_000_000, (1 << 48) * 1_000_000 - 1]
    made = []
    for moment in moments:
        monkeypatch.setattr(time, "time_ns", lambda moment=moment: moment)
        made.append(new_run_id())
    monkeypatch.undo()
    assert [each[:18] for each in made] == sorted({each[:18] for each in made})
