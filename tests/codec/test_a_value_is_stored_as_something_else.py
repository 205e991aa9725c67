"""Danger: a value that can't be stored is stored as something else, or its error helps nobody."""

from __future__ import annotations

import enum
import io
import re
import socket
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from codec_samples import Colour, DictKind, Item, ListKind, NumberKind, OwnNew, TextKind

from effectlog.codec import JsonCodec, classes, register
from effectlog.errors import EncodingError

codec = JsonCodec()


@pytest.fixture(autouse=True)
def own_registrations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "_registered", {})


def refusal(value: object) -> EncodingError:
    with pytest.raises(EncodingError) as caught:
        codec.encode(value)
    return caught.value


def test_the_error_names_path_type_and_remedy() -> None:
    error = refusal({"items": [1, (2, Item("a", price=threading.Lock()))]})
    assert error.path == '["items"][1][1].price'
    assert error.type_name == "_thread.lock"
    assert str(error).startswith('result["items"][1][1].price of type _thread.lock can\'t be stored')


def test_the_caller_names_the_root() -> None:
    with pytest.raises(EncodingError, match=r"^order\[0\] of type object"):
        codec.encode([object()], root="order")


def test_a_key_or_a_member_of_a_set_is_named() -> None:
    assert refusal({Path("a"): 1}).type_name == f"{type(Path()).__module__}.PosixPath"
    assert "PosixPath" in refusal({Path("a"): 1}).path
    assert "PosixPath" in refusal({Path("a")}).path


def test_a_generator_is_refused_with_the_advice_to_materialise_it() -> None:
    assert "list(...)" in str(refusal(number for number in [1]))
    assert "list(...)" in str(refusal(iter([1])))


async def test_async_values_are_refused_with_advice() -> None:
    async def stream() -> Any:
        yield 1

    async def call() -> None: ...

    coroutine = call()
    assert "await" in str(refusal(coroutine))
    coroutine.close()
    assert "async for" in str(refusal(stream()))


def test_what_belongs_to_a_process_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "f").open("w") as file, socket.socket() as connection:
        assert "open file" in str(refusal(file))
        assert refusal(connection).type_name == "socket.socket"
    assert "code" in str(refusal(lambda: 1))
    assert "code" in str(refusal(Item))
    assert "bytes(...)" in str(refusal(bytearray(b"x")))
    assert "`str(...)`" in str(refusal(Path("x")))
    assert refusal(io.BytesIO()).type_name == "_io.BytesIO"


@pytest.mark.parametrize(
    "value",
    [TextKind("a"), NumberKind(1), ListKind([1]), DictKind(a=1)],
    ids=lambda value: re.sub(r" at 0x\w+", "", repr(value)),
)
def test_a_subclass_of_a_builtin_is_never_downgraded(value: object) -> None:
    assert "subclass of" in str(refusal([value]))


def test_a_cycle_or_great_depth_is_refused_without_a_recursion_error() -> None:
    cycle: list[Any] = []
    cycle.append({"again": cycle})
    assert "contains itself" in str(refusal(cycle))
    assert len(str(refusal(cycle))) < 400
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    assert "levels deep" in str(refusal(deep))


def test_a_value_at_the_depth_limit_comes_back() -> None:
    deep: Any = 1
    for _ in range(50):
        deep = {"a": (deep,)}
    assert codec.decode(codec.encode(deep)) == deep


def encode_under(frames: int) -> bytes:
    return encode_under(frames - 1) if frames else codec.encode([[[[[[[[1]]]]]]]])


def test_a_full_call_stack_is_an_encoding_error() -> None:
    for frames in range(sys.getrecursionlimit(), 0, -1):
        try:
            with pytest.raises(EncodingError, match="stack"):
                encode_under(frames)
        except RecursionError:
            continue  # too deep to reach the codec at all
        return
    pytest.fail("no depth reached the codec with a full stack")


def test_a_class_made_in_a_function_is_refused_with_advice() -> None:
    @dataclass
    class Local:
        a: int

    class Kind(enum.Enum):
        A = 1

    assert "top of its module" in str(refusal(Local(1)))
    assert "top of its module" in str(refusal(Kind.A))
    register(Local)
    # A registration vouches for the class, so the refusal must not have been remembered.
    assert codec.decode(codec.encode(Local(1))) == Local(1)


def test_a_class_that_its_module_no_longer_names_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class Hidden:
        a: int

    Hidden.__qualname__ = "Hidden"
    assert "found again" in str(refusal(Hidden(1)))


def test_a_class_that_builds_itself_is_refused() -> None:
    assert "__new__" in str(refusal(OwnNew(1)))


def test_an_object_whose_repr_fails_is_still_named() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise ValueError("no repr")

    error = refusal({Broken(): 1})
    assert error.type_name.endswith("Broken")
    assert "Broken" in error.path


def test_only_storable_classes_can_be_registered() -> None:
    with pytest.raises(TypeError, match="not a dataclass"):
        register(socket.socket)
    assert register(Colour) is Colour
