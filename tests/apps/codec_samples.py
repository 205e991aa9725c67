"""Classes whose objects the codec tests store; importable by the child processes too."""

from __future__ import annotations

import collections
import enum
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, Optional, Self, TypeVar

import msgspec
import pydantic

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    CRIMSON = "red"  # noqa: PIE796 - the alias is the case
    BLUE = object()  # a member is known by its name, whatever its value


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Level(enum.StrEnum):
    LOW = "low"


class Rights(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Bits(enum.IntFlag, boundary=enum.KEEP):
    ONE = 1


Point = collections.namedtuple("Point", "x y")  # noqa: PYI024 - the untyped kind is the case


class Pair(NamedTuple):
    left: int
    right: Any = None


@dataclass
class Item:
    name: str
    price: Any = None
    tags: list[str] = field(default_factory=list)


@dataclass
class Order:
    order_id: str
    items: list[Item]
    note: Optional[Item | str] = None  # noqa: UP045 - the spelling is the case

    calls: ClassVar[list[str]] = []
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.calls.append("post_init")
        self.total = len(self.items)

    @cached_property
    def label(self) -> str:
        return f"order {self.order_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    cents: int
    currency: str = "EUR"

    def __post_init__(self) -> None:
        if self.cents > 10**9:
            raise ValueError("a constructor that would refuse")


@dataclass
class OwnNew:
    a: int

    def __new__(cls, *args: Any) -> Self:
        return super().__new__(cls)


class Address(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow", populate_by_name=True)

    street: str = pydantic.Field(alias="Street")
    city: str = "Paris"
    _cache: dict[str, int] = pydantic.PrivateAttr(default_factory=dict)


class Person(pydantic.BaseModel):
    name: str
    address: Address | None = None

    @pydantic.field_validator("name")
    @classmethod
    def _shout(cls, value: str) -> str:
        return value + "!"  # would be applied twice if decoding validated


class Event(msgspec.Struct, frozen=True):
    name: str
    money: Money | None = None
    extra: Any = msgspec.UNSET


class Counting(msgspec.Struct):
    count: int

    def __post_init__(self) -> None:
        self.count += 1


class Outer:
    @dataclass
    class Inner:
        a: int


@dataclass
class Box(Generic[T]):
    content: T


class Page(pydantic.BaseModel, Generic[T]):
    items: list[T]


class TextKind(str):
    __slots__ = ()


class NumberKind(int):
    pass


class ListKind(list):
    pass


class DictKind(dict):
    pass
