"""From the tagged form back to values. Builds nothing but the types listed in ``tags.py``."""

from __future__ import annotations

import base64
from collections import Counter, OrderedDict, defaultdict
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from effectlog.codec import classes
from effectlog.codec.encode import FACTORIES, TAG
from effectlog.codec.refusal import RefusalError, item, type_name
from effectlog.codec.times import moment

if TYPE_CHECKING:
    from collections.abc import Callable


class Untagger:
    """One walk over stored JSON values; ``annotation`` helps to find the classes they name."""

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation

    def untag(self, node: Any) -> Any:
        """The value that ``node`` stands for; raises ``RefusalError``, or what a damaged node provokes."""
        if type(node) is list:
            return self._items(node)
        if type(node) is not dict:
            return node
        if TAG not in node:
            return self._members(node, "[{}]")
        name = node[TAG]
        build = _BUILDERS.get(name) if isinstance(name, str) else None
        if build is None:
            raise RefusalError(f"its kind {name!r} is unknown; did a newer effectlog write it?", "value")
        return build(self, node)

    def _items(self, nodes: list[Any]) -> list[Any]:
        values: list[Any] = []
        try:
            for node in nodes:
                values.append(self.untag(node))  # noqa: PERF401 - its length is the failing index
        except RefusalError as refusal:
            raise refusal.under(f"[{len(values)}]") from None
        return values

    def _members(self, nodes: dict[str, Any], part: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, node in nodes.items():
            try:
                values[name] = self.untag(node)
            except RefusalError as refusal:
                raise refusal.under(item(name) if part == "[{}]" else part.format(name)) from None
        return values

    def pairs(self, node: dict[str, Any]) -> dict[Any, Any]:
        """The members of a dict stored as pairs."""
        values: dict[Any, Any] = {}
        for key_node, value_node in node["v"]:
            key = self.untag(key_node)
            try:
                values[key] = self.untag(value_node)
            except RefusalError as refusal:
                raise refusal.under(item(key)) from None
        return values

    def items(self, node: dict[str, Any]) -> list[Any]:
        """The members of a sequence or set."""
        return self._items(_a_list(node["v"]))

    def enum(self, node: dict[str, Any]) -> Any:
        """An enum's member, by name; a Flag by number."""
        cls = self._find(node, Enum)
        if issubclass(cls, Flag):
            return cls(self.untag(node["v"]))
        member = cls.__members__.get(node["v"])
        if member is None:
            raise RefusalError(f"the enum has no member {node['v']!r} any more", type_name(cls))
        return member

    def namedtuple(self, node: dict[str, Any]) -> Any:
        """A named tuple, of as many items as its class has fields."""
        cls = self._find(node, tuple)
        items = self.items(node)
        if not classes.is_namedtuple(cls) or len(items) != len(cls._fields):
            raise RefusalError(f"{len(items)} stored items don't fit the class's fields", type_name(cls))
        return tuple.__new__(cls, items)

    def object(self, node: dict[str, Any]) -> Any:
        """A dataclass, pydantic model or Struct."""
        cls = self._find(node, object)
        fields = self._members(node["v"], ".{}")
        return classes.rebuild(cls, classes.State(fields, self._members(node.get("x", {}), ".{}")))

    def _find(self, node: dict[str, Any], base: type) -> Any:
        cls = classes.find(node["c"], self._annotation)
        if not issubclass(cls, base):
            raise RefusalError(f"the class is not a kind of {base.__name__} any more", type_name(cls))
        return cls


def _a_list(node: Any) -> list[Any]:
    if type(node) is not list:
        raise RefusalError("the stored form is damaged: a list was expected", "value")
    return node


def _from_base64(node: dict[str, Any]) -> bytes:
    return base64.b64decode(node["v"], validate=True)


def _default_dict(walk: Untagger, node: dict[str, Any]) -> Any:
    factory = None if node["f"] is None else FACTORIES[node["f"]]
    return defaultdict(factory, walk.pairs(node))


_BUILDERS: dict[str, Callable[[Untagger, dict[str, Any]], Any]] = {
    "int": lambda _, node: int(node["v"], 16),
    "float": lambda _, node: float(node["v"]),
    "str": lambda _, node: _from_base64(node).decode("utf-8", "surrogatepass"),
    "bytes": lambda _, node: _from_base64(node),
    "dict": Untagger.pairs,
    "tuple": lambda walk, node: tuple(walk.items(node)),
    "set": lambda walk, node: set(walk.items(node)),
    "frozenset": lambda walk, node: frozenset(walk.items(node)),
    "counter": lambda walk, node: Counter(walk.pairs(node)),
    "ordereddict": lambda walk, node: OrderedDict(walk.pairs(node)),
    "defaultdict": _default_dict,
    "datetime": lambda _, node: moment(datetime, node),
    "time": lambda _, node: moment(time, node),
    "date": lambda _, node: date.fromisoformat(node["v"]),
    "timedelta": lambda _, node: timedelta(*node["v"]),
    "decimal": lambda _, node: Decimal(node["v"]),
    "uuid": lambda _, node: UUID(node["v"]),
    "enum": Untagger.enum,
    "namedtuple": Untagger.namedtuple,
    "object": Untagger.object,
    "unset": lambda _walk, _node: msgspec.UNSET,
}
