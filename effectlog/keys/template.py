"""From a call to its key: a format template over the parameters, or a callable.

The invariant: the same call renders the same text in every process, or the key is refused. ``1`` and
``"1"`` render alike, as do ``a="x:y", b="z"`` and ``a="x", b="y:z"`` under ``{a}:{b}``; the fingerprints
of the arguments tell such calls apart, so the second one is a conflict and never a wrong answer.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import string
from collections import OrderedDict
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID

from effectlog.errors import KeyTemplateError
from effectlog.validation import is_storable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

MAX_KEY_LENGTH = 512
"""Longest key, in characters."""

_STABLE = frozenset(
    {str, int, bool, float, bytes, type(None), Decimal, UUID, date, datetime, time, timedelta}
)
_REORDERED = (list, tuple, dict)
"""What ``_in_order`` looks into; the text of everything else is what its class makes of it."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]")
_ADDRESS_IN_TEXT = re.compile(r" at 0x[0-9a-fA-F]{6,}>")
_ACCESS = re.compile(r"\.(?P<attribute>[^.\[\]]+)|\[(?P<index>[^\]]+)\]")
_CONVERSIONS: Mapping[str, Callable[[Any], str]] = {"r": repr, "s": str, "a": ascii}


class KeyTemplate:
    """How a key is made from a call: ``str.format`` syntax over the parameters, or a callable.

    ``parameters`` are the names that fields may begin with. A callable gets the call's own arguments and
    returns the key. ``what`` names it in errors, by default as the function. Raises ``KeyTemplateError`` at
    once for a template that can never work.
    """

    def __init__(
        self,
        template: str | Callable[..., str],
        function: Callable[..., Any],
        parameters: Iterable[str],
        *,
        what: str | None = None,
    ) -> None:
        self._owner = getattr(function, "__qualname__", repr(function))
        self._what = what or self._owner
        self._callable = None if isinstance(template, str) else template
        self._parts: tuple[str | _Field, ...] = ()
        if isinstance(template, str):
            self._parts = tuple(self._parse(template, tuple(parameters)))
            if all(isinstance(part, str) for part in self._parts):
                self._check("".join(map(str, self._parts)))  # without fields it is the key itself
        elif not callable(template) or inspect.iscoroutinefunction(template):
            raise self._error("its key is neither a template nor a plain (not async) callable")
        self.fields = frozenset(part.root for part in self._parts if isinstance(part, _Field))

    def render(self, arguments: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The key of one call; a template reads ``arguments``, a callable is called with the others.

        Raises ``KeyTemplateError`` for a key that is empty, too long, not storable as text, or made from a
        value without a stable text form, and for whatever the callable raises.
        """
        if self._callable is not None:
            return self._check(self._call(args, kwargs))
        return self._check(
            "".join([part if isinstance(part, str) else self._field(part, arguments) for part in self._parts])
        )

    def _parse(self, template: str, parameters: tuple[str, ...]) -> Iterator[str | _Field]:
        try:
            parsed = list(string.Formatter().parse(template))
        except ValueError as error:
            raise self._error(f"its key template {template!r} can't be read: {error}") from None
        for literal, name, spec, conversion in parsed:
            if literal:
                yield literal
            if name is not None:
                yield self._parse_field(name, spec or "", conversion or "", parameters)

    def _parse_field(self, name: str, spec: str, conversion: str, parameters: tuple[str, ...]) -> _Field:
        root = re.split(r"[.\[]", name, maxsplit=1)[0]
        if not root or root.isdecimal():
            raise self._error(f"the field {{{name}}} of its key is positional; name the parameter", name)
        if root not in parameters:
            known = ", ".join(parameters) or "it has none"
            raise self._error(f"the field {{{name}}} of its key is not one of its parameters ({known})", name)
        access = tuple(_accesses(name[len(root) :]))
        if "".join(step.text for step in access) != name[len(root) :]:
            raise self._error(f"the field {{{name}}} of its key can't be read", name)
        if "{" in spec or (conversion and conversion not in _CONVERSIONS):
            raise self._error(f"the field {{{name}}} of its key has a format that can't be used", name)
        return _Field(name, root, access, spec, conversion)

    def _field(self, field: _Field, arguments: Mapping[str, Any]) -> str:
        value = arguments[field.root]
        if type(value) is str and field.is_bare:
            return value
        try:
            for step in field.access:
                value = step.follow(value)
            unstable = _unstable(value, str)
            text = "" if unstable else field.text(_in_order(value))
        except Exception as error:
            reason = (
                f"the field {{{field.name}}} of its key can't be rendered: {type(error).__name__}: {error}"
            )
            raise self._error(reason, field.name) from error
        if unstable:
            raise self._error(
                f"the field {{{field.name}}} of its key has no stable text form: {unstable}; name an"
                " attribute that identifies it, such as {order.id}",
                field.name,
            )
        return text

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
        assert self._callable is not None  # noqa: S101 - narrows the type; render() has asked
        try:
            key: object = self._callable(*args, **kwargs)
        except Exception as error:
            raise self._error(f"its key callable raised {type(error).__name__}: {error}") from error
        if inspect.iscoroutine(key):
            key.close()
        if isinstance(key, str) and _ADDRESS_IN_TEXT.search(key):
            raise self._error(
                f"its key callable returned a memory address, which no other process has: {key!r}"
            )
        return key

    def _check(self, key: object) -> str:
        if not isinstance(key, str):
            raise self._error(f"its key callable returned a {type(key).__qualname__}; return a non-empty str")
        if not key.strip():
            raise self._error("its key is empty for this call; every operation needs a name of its own")
        if len(key) > MAX_KEY_LENGTH:
            raise self._error(f"its key has {len(key)} characters, more than {MAX_KEY_LENGTH}: {key[:60]!r}…")
        if not is_storable(key):
            raise self._error(
                f"its key has a NUL or a lone surrogate, which no database stores: {key[:60]!r}"
            )
        return key

    def _error(self, reason: str, field: str | None = None) -> KeyTemplateError:
        return KeyTemplateError(f"{self._what}: {reason}", function=self._owner, field=field)


@dataclass(frozen=True, slots=True)
class _Access:
    """One ``.attribute`` or ``[index]`` of a field."""

    text: str
    attribute: str | None
    index: str | None

    def follow(self, value: Any) -> Any:
        if self.attribute is not None:
            return getattr(value, self.attribute)
        index = self.index or ""
        return value[int(index) if index.isdecimal() else index]


@dataclass(frozen=True, slots=True)
class _Field:
    """One replacement field of a template, read once at decoration."""

    name: str
    root: str
    access: tuple[_Access, ...]
    spec: str
    conversion: str

    @property
    def is_bare(self) -> bool:
        return not (self.access or self.spec or self.conversion)

    def text(self, value: Any) -> str:
        if self.conversion:
            value = _CONVERSIONS[self.conversion](value)
        return format(value, self.spec)


def _accesses(text: str) -> Iterator[_Access]:
    for found in _ACCESS.finditer(text):
        yield _Access(found.group(), found["attribute"], found["index"])


def _unstable(value: Any, as_text: Callable[[Any], str], *, in_object: bool = False) -> str | None:
    """What makes a value's text differ between processes, if anything does that can be seen."""
    cls = type(value)
    if cls in _STABLE or isinstance(value, Enum):
        return None
    if isinstance(value, (set, frozenset)):
        return "the order of a set changes"
    if isinstance(value, dict) and len(value) > 1 and (in_object or cls not in (dict, OrderedDict)):
        return "a dict's text follows the order in which it was filled"
    in_object = in_object or cls not in _REORDERED
    for part in _parts(value):
        reason = _unstable(part, repr, in_object=in_object)
        if reason is not None:
            return reason
    if not isinstance(value, (str, list, tuple, dict)) and _ADDRESS.search(text := as_text(value)):
        return f"{text[:80]!r} has a memory address"
    return None


def _in_order(value: Any) -> Any:
    """The value with its dicts in the order of their keys: equal arguments render alike."""
    if type(value) is dict:
        return {key: _in_order(value[key]) for key in sorted(value, key=repr)}
    return type(value)(map(_in_order, value)) if type(value) in (list, tuple) else value


def _parts(value: Any) -> Iterable[Any]:
    """What the text of a container, or of an object that lists its fields, is made of."""
    cls = type(value)
    if isinstance(value, dict):
        return (*value.keys(), *value.values())
    if isinstance(value, (list, tuple)):
        return value
    if dataclasses.is_dataclass(cls):
        names = [field.name for field in dataclasses.fields(cls) if field.repr]
    else:
        names = [*getattr(cls, "__struct_fields__", ()), *getattr(cls, "__pydantic_fields__", ())]
    return [getattr(value, name, None) for name in names]
