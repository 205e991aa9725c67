"""The one exception that encoding and decoding use inside; it collects the path while it unwinds.

It never leaves the codec: the public functions turn it into ``EncodingError`` or ``DecodingError``.
Collecting on the way out keeps paths free of charge for values that are fine.
"""

from __future__ import annotations

import io
import types
from collections.abc import AsyncIterator, Iterator
from pathlib import PurePath
from typing import Any

_SHOWN_PARTS = 12


class RefusalError(Exception):
    """A value, or a stored form, that is refused. ``parts`` lead to it, the innermost first."""

    def __init__(self, reason: str, type_name: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.type_name = type_name
        self.parts: list[str] = []

    def under(self, part: str) -> RefusalError:
        """The same refusal, seen from one level further out."""
        self.parts.append(part)
        return self

    @property
    def path(self) -> str:
        """Where it is inside the value, such as ``["items"][3].owner``; shortened when very deep."""
        parts = self.parts[::-1]
        if len(parts) > _SHOWN_PARTS:
            half = _SHOWN_PARTS // 2
            parts = [*parts[:half], "…", *parts[-half:]]
        return "".join(parts)


def item(key: object) -> str:
    """The path part of one dict key or list position."""
    return f'["{key[:60]}"]' if type(key) is str and key.isprintable() else f"[{shown(key)}]"


def shown(value: object) -> str:
    """A short text of any value; never raises, whatever the value's ``__repr__`` does."""
    try:
        return repr(value)[:60]
    except Exception:
        return f"<{type_name(type(value))}>"


def type_name(cls: type) -> str:
    """A class as people write it: builtins bare, others with their module."""
    if cls.__module__ == "builtins":
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


_BUILTINS = (str, int, float, bytes, list, dict, tuple, set, frozenset)

_REASONS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (types.CoroutineType, "it was never awaited: return its result with `await`"),
    (AsyncIterator, "it can be read only once: materialise it with `[item async for item in ...]`"),
    (io.IOBase, "an open file belongs to its process: use its content or its path"),
    (Iterator, "it can be read only once: materialise it with `list(...)`"),
    ((bytearray, memoryview), "convert it with `bytes(...)`"),
    (PurePath, "use its text: `str(...)`"),
)


def reason_against(value: Any) -> str:
    """One clause for the error message: what it is and the remedy."""
    for kinds, reason in _REASONS:
        if isinstance(value, kinds):
            return reason
    if callable(value):
        return "code can't be stored: use a value, or a name by which the code is found again"
    if (from_pydantic := _pydantic_reason(type(value))) is not None:
        return from_pydantic
    base = next((base.__name__ for base in _BUILTINS if isinstance(value, base)), None)
    if base is not None:
        return f"a subclass of {base} would not come back as itself: use a plain {base}"
    return "use plain values, a dataclass, an enum, a pydantic model or a msgspec Struct"


def _pydantic_reason(cls: type) -> str | None:
    """For what comes out of pydantic's models, or is one of its release 1; asked without importing it."""
    if hasattr(cls, "get_secret_value"):
        return "a secret would be readable in the store: pass the name under which the task finds it"
    if hasattr(cls, "__fields_set__") and hasattr(cls, "__fields__"):
        return "it is a model of pydantic 1: use its `.dict()`, or make it a model of pydantic 2"
    if cls.__module__.partition(".")[0] in ("pydantic", "pydantic_core"):
        return "use its text: `str(...)`"
    return None
