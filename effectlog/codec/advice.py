"""Why a value can't be stored, and what to return or pass instead. Words only; decides nothing."""

from __future__ import annotations

import io
import types
from collections.abc import AsyncIterator, Iterator
from pathlib import PurePath
from typing import Any

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
    base = next((base.__name__ for base in _BUILTINS if isinstance(value, base)), None)
    if base is not None:
        return f"a subclass of {base} would not come back as itself: use a plain {base}"
    return "use plain values, a dataclass, an enum, a pydantic model or a msgspec Struct"
