"""Danger: equal arguments get another fingerprint in the next process, or different ones share it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import pytest
from codec_samples import Address, Money, Order
from hypothesis import given, settings
from hypothesis import strategies as st

import effectlog
from effectlog.codec import fingerprint
from effectlog.codec.json_codec import _canonical, to_sorted_ascii
from effectlog.errors import EncodingError

PROGRAM = textwrap.dedent("""
    import enum, sys
    from dataclasses import dataclass
    from effectlog.codec import JsonCodec, fingerprint
    from effectlog.keys import KeyTemplate, operation_id

    @dataclass(frozen=True)
    class Order:
        name: str
        tags: frozenset

    class Colour(enum.Enum):
        RED = 1

    def send(order, colour): ...

    words = [f"word {n}" for n in range(50)]
    pairs = {"b": 1, "a": set(words)} if sys.argv[1] == "1" else {"a": set(reversed(words)), "b": 1}
    order = Order("x", frozenset(words))
    prints = [fingerprint(value) for value in (set(words), pairs, order, {Colour.RED: order})]
    template = KeyTemplate("send:{order.name}:{colour}", send, ("order", "colour"))
    key = template.render({"order": order, "colour": Colour.RED}, (), {})
    stored = JsonCodec().encode(order).decode().replace("orders:", "").replace("__main__:", "")
    print(*prints, key, operation_id("run", key), stored, sep="\\n")
""")


def run(folder: Path, seed: str, order: str, *command: str) -> list[str]:
    path = os.pathsep.join([str(Path(effectlog.__file__).parents[1]), str(folder)])
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
    arguments = [sys.executable, *command, order]
    done = subprocess.run(arguments, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_processes_agree_whatever_their_hash_seed_and_main_module(tmp_path: Path) -> None:
    script = tmp_path / "orders.py"
    script.write_text(PROGRAM)
    first = run(tmp_path, "1", "1", str(script))
    second = run(tmp_path, "2", "2", str(script))
    as_module = run(tmp_path, "3", "1", "-m", "orders")
    imported = run(tmp_path, "4", "2", "-c", "import orders")
    assert len(first) == 7
    assert first == second == as_module == imported


def test_the_order_of_sets_and_dicts_does_not_matter() -> None:
    assert fingerprint({"a": 1, "b": {2, 3}}) == fingerprint({"b": {3, 2}, "a": 1})
    assert fingerprint({1: "a", 2: "b"}) == fingerprint({2: "b", 1: "a"})
    assert fingerprint([1, 2]) != fingerprint([2, 1])


def test_types_matter() -> None:
    alike = [
        1,
        True,
        1.0,
        "1",
        b"1",
        [1],
        (1,),
        {1},
        frozenset({1}),
        {1: 1},
        {"1": 1},
        None,
        "None",
        "",
        [],
        {},
    ]
    assert len({fingerprint(value) for value in alike}) == len(alike)
    assert fingerprint({"!": "set", "v": [1]}) != fingerprint({1})


def test_a_local_class_and_its_cached_attributes_do_not_matter() -> None:
    @dataclass
    class Local:
        a: int

    assert fingerprint(Local(1)) == fingerprint(Local(1)) != fingerprint(Local(2))
    order = Order("1", [])
    before = fingerprint(order)
    assert order.label
    assert fingerprint(order) == before
    assert fingerprint(Money(cents=1)) != fingerprint(Money(cents=1, currency="USD"))


def test_the_extra_fields_of_a_model_matter() -> None:
    address = Address(street="Rue", zip="75")
    assert fingerprint(address) != fingerprint(Address(street="Rue", zip="76"))
    before = fingerprint(address)
    address._cache["a"] = 1
    assert fingerprint(address) == before


def test_what_has_no_stable_form_is_refused() -> None:
    with pytest.raises(EncodingError, match=r"^session\[0\] of type object"):
        fingerprint([object()], root="session")
    with pytest.raises(EncodingError):
        fingerprint(lambda: 1)


@settings(max_examples=100, deadline=None)
@given(st.integers() | st.text() | st.text(st.characters(exclude_categories=())))
def test_the_short_way_gives_what_the_walk_gives(value: object) -> None:
    inside = to_sorted_ascii(_canonical.tag([value]))[1:-1]
    assert fingerprint(value) == blake2b(inside.encode(), digest_size=12).hexdigest()
