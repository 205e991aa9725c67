"""The tagged form: any storable value as plain JSON values, with tags for what JSON lacks.

============  =======================================================================
tag           members
============  =======================================================================
int           v: hexadecimal text, for integers outside 64 bits
float         v: "nan", "inf" or "-inf"
str           v: base64 of UTF-8 with surrogates, for text with lone surrogates
bytes         v: base64
dict          v: [[key, value], ...], for keys that aren't text or a dict that has a "!" key
tuple         v: [...]
set           v: [...], ordered by their stored form; frozenset alike
counter       v: as dict; ordereddict alike; defaultdict also has f: the factory's name
datetime      v: wall time, zone or offset [name], fold; time alike
date          v: ISO text
timedelta     v: [days, seconds, microseconds]
decimal       v: text; uuid alike
enum          c: class, v: member name, or a Flag's number
namedtuple    c: class, v: [...]
object        c: class, v: {field: value}, x: {attribute: value} where it holds more
unset         msgspec's UNSET
============  =======================================================================

Released tags keep their meaning for ever; ``tests/fixtures/codec`` holds them to it. The same walk makes
the canonical form for fingerprints, in which dicts have no order, classes are known by their bare name
(the same class is ``__main__`` in a script and not in a worker) and only fields count, not attributes
that were computed from them.
"""

from __future__ import annotations

import base64
from collections import Counter, OrderedDict, defaultdict
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from json import JSONEncoder
from math import inf
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from effectlog.codec import classes
from effectlog.codec.refusal import RefusalError, item, reason_against, shown, type_name
from effectlog.codec.times import duration_parts, moment_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

TAG = "!"
MAX_DEPTH = 100
LARGEST = 2**63 - 1
SMALLEST = -(2**63)

FACTORIES: Mapping[str, Callable[[], Any]] = {
    cls.__name__: cls for cls in (list, dict, set, frozenset, tuple, str, bytes, int, float, bool)
}

to_ascii = JSONEncoder(allow_nan=False, separators=(",", ":")).encode
to_sorted_ascii = JSONEncoder(allow_nan=False, separators=(",", ":"), sort_keys=True).encode


class Tagger:
    """One walk over a value. ``canonical`` makes the form that is hashed instead of the one stored."""

    def __init__(self, *, canonical: bool) -> None:
        self._canonical = canonical
        self._name = _bare_name if canonical else classes.stored_name
        self._handlers: dict[type, Callable[[Any, int], Any]] = {
            str: _text,
            int: _integer,
            float: _float,
            list: self._items,
            dict: self._dict,
            tuple: self._tagged("tuple", self._items),
            set: self._tagged("set", self._unordered),
            frozenset: self._tagged("frozenset", self._unordered),
            Counter: self._tagged("counter", self._pairs),
            OrderedDict: self._tagged("ordereddict", self._pairs),
            defaultdict: self._defaultdict,
            **_SCALARS,
        }

    def tag(self, value: Any, depth: int = MAX_DEPTH) -> Any:
        """``value`` in plain JSON values; raises ``RefusalError``."""
        kind = type(value)
        if (kind is str and value.isascii()) or value is None or kind is bool:
            return value  # spares the commonest values a second call
        handler = self._handlers.get(kind, self._object)
        return handler(value, depth)

    def _tagged(self, name: str, content: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
        return lambda value, depth: {TAG: name, "v": content(value, depth)}

    def _items(self, value: Iterable[Any], depth: int) -> list[Any]:
        _check_depth(value, depth)
        tagged: list[Any] = []
        try:
            for part in value:
                tagged.append(self.tag(part, depth - 1))  # noqa: PERF401 - its length is the failing index
        except RefusalError as refusal:
            raise refusal.under(f"[{len(tagged)}]") from None
        return tagged

    def _unordered(self, value: Iterable[Any], depth: int) -> list[Any]:
        _check_depth(value, depth)
        tagged: list[Any] = []
        for part in value:
            try:
                tagged.append(self.tag(part, depth - 1))
            except RefusalError as refusal:
                raise refusal.under("{" + shown(part) + "}") from None
        return sorted(tagged, key=to_sorted_ascii)

    def _dict(self, value: dict[Any, Any], depth: int) -> Any:
        _check_depth(value, depth)
        tagged: dict[str, Any] = {}
        for key, part in value.items():
            if type(key) is not str or key == TAG or not (key.isascii() or _is_encodable(key)):
                return {TAG: "dict", "v": self._pairs(value, depth)}
            try:
                tagged[key] = self.tag(part, depth - 1)
            except RefusalError as refusal:
                raise refusal.under(item(key)) from None
        return tagged

    def _pairs(self, value: Mapping[Any, Any], depth: int) -> list[Any]:
        _check_depth(value, depth)
        pairs: list[Any] = []
        for key, part in value.items():
            try:
                pairs.append([self.tag(key, depth - 1), self.tag(part, depth - 1)])
            except RefusalError as refusal:
                raise refusal.under(item(key)) from None
        return sorted(pairs, key=to_sorted_ascii) if self._canonical else pairs

    def _defaultdict(self, value: defaultdict[Any, Any], depth: int) -> Any:
        factory = value.default_factory
        name = getattr(factory, "__name__", "") if factory is not None else None
        if name is not None and FACTORIES.get(name) is not factory:
            raise RefusalError(
                "its default factory can't be stored; use a builtin type or return dict(...)", "defaultdict"
            )
        return {TAG: "defaultdict", "f": name, "v": self._pairs(value, depth)}

    def _object(self, value: Any, depth: int) -> Any:
        cls = type(value)
        if isinstance(value, Enum):
            return {TAG: "enum", "c": self._name(cls), "v": _member(value)}
        if isinstance(value, tuple) and classes.is_namedtuple(cls) and not getattr(value, "__dict__", None):
            return {TAG: "namedtuple", "c": self._name(cls), "v": self._items(value, depth)}
        if not classes.is_record(cls):
            raise RefusalError(reason_against(value), type_name(cls))
        state = classes.state_of(value)
        tagged = {TAG: "object", "c": self._name(cls), "v": self._attributes(state.fields, depth)}
        others = state.undeclared if self._canonical else state.others
        if others:
            tagged["x"] = self._attributes(others, depth)
        return tagged

    def _attributes(self, held: dict[str, Any], depth: int) -> dict[str, Any]:
        _check_depth(held, depth)
        tagged: dict[str, Any] = {}
        for name, part in held.items():
            try:
                tagged[name] = self.tag(part, depth - 1)
            except RefusalError as refusal:
                raise refusal.under(f".{name}") from None
        return tagged


def _check_depth(value: object, depth: int) -> None:
    if depth <= 0:
        raise RefusalError(
            f"it is nested more than {MAX_DEPTH} levels deep, or contains itself", type_name(type(value))
        )


def _text(value: str, _: int) -> Any:
    if value.isascii() or _is_encodable(value):
        return value
    # JSON would join two lone surrogates into one character.
    return {TAG: "str", "v": to_base64(value.encode("utf-8", "surrogatepass"))}


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _integer(value: int, _: int) -> Any:
    # Hexadecimal, because Python limits the digits of a decimal conversion.
    return value if SMALLEST <= value <= LARGEST else {TAG: "int", "v": hex(value)}


def _float(value: float, _: int) -> Any:
    return value if -inf < value < inf else {TAG: "float", "v": repr(value)}


def to_base64(value: bytes) -> str:
    """Bytes as ASCII text."""
    return base64.b64encode(value).decode("ascii")


def _scalar(name: str, content: Callable[[Any], Any]) -> Callable[[Any, int], Any]:
    return lambda value, _: {TAG: name, "v": content(value)}


_SCALARS: dict[type, Callable[[Any, int], Any]] = {
    bytes: _scalar("bytes", to_base64),
    date: _scalar("date", date.isoformat),
    timedelta: _scalar("timedelta", duration_parts),
    Decimal: _scalar("decimal", str),
    UUID: _scalar("uuid", str),
    datetime: lambda value, _: {TAG: "datetime", **moment_parts(value)},
    time: lambda value, _: {TAG: "time", **moment_parts(value)},
    type(msgspec.UNSET): lambda _value, _depth: {TAG: "unset"},
}


def _member(value: Enum) -> Any:
    if isinstance(value, Flag):
        return _integer(value.value, 0)
    if type(value).__members__.get(value.name) is not value:
        raise RefusalError("it isn't a named member of its enum", type_name(type(value)))
    return value.name


def _bare_name(cls: type) -> str:
    return cls.__qualname__
