"""Danger: damaged or hostile bytes crash a worker, run code, or raise what nobody catches."""

from __future__ import annotations

import contextlib
import json

import pytest
from codec_samples import Address, Counting, Money, Order, Pair, Rights
from hypothesis import given, settings
from hypothesis import strategies as st

from effectlog.codec import JsonCodec
from effectlog.codec.decode import _BUILDERS
from effectlog.codec.encode import TAG
from effectlog.errors import DecodingError

codec = JsonCodec()

SAMPLES = [
    codec.encode(value)
    for value in (
        {"a": [1, 2.5, "é", None]},
        {(1, "a"): {1, 2}, None: b"x"},
        [Order("1", []), Money(cents=1), Counting(1), Pair(1), Rights.READ, Address(street="a")],
    )
]


def decodes_or_refuses(data: bytes) -> None:
    with contextlib.suppress(DecodingError):
        codec.decode(data)


DAMAGED = [
    b"",
    b"\xff",
    b'"\xff"',
    b"{",
    b"nul",
    b"1 2",
    b"1e999",
    b"9" * 5000,
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"!":"list"}',
    b'{"!":1}',
    b'{"!":null}',
    b'{"!":["set"]}',
    b'{"!":"set"}',
    b'{"!":"set","v":1}',
    b'{"!":"set","v":[[]]}',
    b'{"!":"dict","v":[1]}',
    b'{"!":"dict","v":[[{"!":"set","v":[]},1]]}',
    b'{"!":"int","v":"zz"}',
    b'{"!":"int","v":1}',
    b'{"!":"datetime","v":"yesterday"}',
    b'{"!":"datetime","v":"2026-01-01","zone":"../../etc/passwd"}',
    b'{"!":"datetime","v":"2026-01-01","zone":""}',
    b'{"!":"bytes","v":"*"}',
    b'{"!":"uuid","v":"x"}',
    b'{"!":"decimal","v":"x"}',
    b'{"!":"float","v":"x"}',
    b'{"!":"defaultdict","f":"open","v":[]}',
    b'{"!":"enum","c":"codec_samples:Rights","v":[]}',
    b'{"!":"enum","c":1,"v":"A"}',
    b'{"!":"namedtuple","c":"codec_samples:Pair","v":[1]}',
    b'{"!":"object","c":"codec_samples:Order","v":[]}',
    b'{"!":"object","c":"codec_samples:Order","v":{"order_id":"1"}}',
    b'{"!":"object","c":"codec_samples:Money","v":{"cents":1},"x":{"__class__":1}}',
    b'{"!":"object","c":"codec_samples:Item","v":{"name":1},"x":{"__class__":"str"}}',
]


@pytest.mark.parametrize("data", DAMAGED, ids=lambda data: repr(data[:60]))
def test_damage_is_a_decoding_error(data: bytes) -> None:
    with pytest.raises(DecodingError):
        codec.decode(data)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(SAMPLES), st.data())
def test_no_flipped_cut_or_spliced_byte_raises_anything_else(sample: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(sample)))
    end = data.draw(st.integers(at, min(len(sample), at + 8)))
    decodes_or_refuses(sample[:at] + data.draw(st.binary(max_size=4)) + sample[end:])


NAMES = ["codec_samples:Order", "codec_samples:Pair", "codec_samples:Size"]
nodes = st.recursive(
    st.none() | st.integers() | st.text(max_size=5) | st.sampled_from(NAMES),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*"vcfx", "zone", "offset", "name", "fold"]), inner, max_size=4)
        | st.fixed_dictionaries(
            {TAG: st.sampled_from(sorted(_BUILDERS)), "v": inner}, optional={"c": inner, "f": inner}
        )
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(nodes)
def test_no_well_formed_nonsense_raises_anything_else(node: object) -> None:
    decodes_or_refuses(json.dumps(node, separators=(",", ":")).encode())
