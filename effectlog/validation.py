"""Values that callers give, refused where they are given: seconds, numbers, sizes, and types of exceptions.

Leaf module, pure. The invariant: what passes here can be added to a clock, stored, and compared by every
store.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from effectlog.errors import ConfigurationError, EncodingError

if TYPE_CHECKING:
    from effectlog.clock import Duration

CENTURY = 100 * 365.25 * 86_400.0
"""Seconds: no due time, age or limit is longer, so that every sum is a moment that can be stored."""

MOST = 2**31 - 1
"""The largest number that every store takes as one."""


def seconds(given: Any, what: str, *, positive: bool = False, more: str = "") -> float:
    """The given number of seconds, or timedelta, as seconds.

    ``what`` names it as the caller wrote it, as in ``"purge(older_than"``. Raises ConfigurationError for what
    is no number, negative, not a number, or more than a century; with ``positive`` for 0 too. ``more`` ends
    the advice.
    """
    number = given.total_seconds() if isinstance(given, timedelta) else given
    if isinstance(number, int | float) and not isinstance(number, bool):
        least_met = number > 0 if positive else number >= 0
        if least_met and number <= CENTURY:
            return float(number)
    least = "greater than 0" if positive else "from 0 on"
    raise ConfigurationError(
        f"{what}={given!r}): give seconds {least}, as a number or a timedelta, and at most a century{more}"
    )


def wait_limit(given: Duration | None, what: str) -> float | None:
    """Seconds to wait at most, or None for no limit; a time that is up already means not to wait at all."""
    if given is None:
        return None
    number = given.total_seconds() if isinstance(given, timedelta) else given
    return seconds(max(number, 0) if isinstance(number, int | float) else number, what)


def fitting(data: bytes, most: int, what: str, *, path: str, value: Any) -> bytes:
    """Return the encoded value; raise EncodingError, beginning with ``what``, above ``most`` bytes."""
    if len(data) <= most:
        return data
    raise EncodingError(
        f"{what} {len(data)} bytes and {most} are allowed; store it elsewhere and use its address instead, "
        "or raise EffectLog(max_value_bytes=)",
        path=path,
        type_name=type(value).__qualname__,
    )


def whole(given: Any, what: str, *, least: int = 0, most: float = MOST) -> int:
    """Return the number; raise ConfigurationError unless it is whole and between ``least`` and ``most``."""
    if isinstance(given, int) and not isinstance(given, bool) and least <= given <= most:
        return given
    raise ConfigurationError(f"{what}={given!r}): give a whole number from {least} on")


def error_types(given: Any, what: str) -> tuple[type[BaseException], ...]:
    """One exception type or a tuple or list of them, as a tuple; ConfigurationError for anything else."""
    types = tuple(given) if isinstance(given, tuple | list) else (given,)
    for kind in types:
        if not isinstance(kind, type) or BaseException not in kind.__mro__:
            raise ConfigurationError(
                f"{what}: {kind!r} is no exception type; give a class such as ValueError, or a tuple of "
                "classes"
            )
    return types


def texts(given: Any, what: str) -> tuple[str, ...]:
    """One text or several of them, as a tuple; ConfigurationError for anything else."""
    found = (given,) if isinstance(given, str) else given
    if isinstance(found, tuple | list | set | frozenset) and all(isinstance(text, str) for text in found):
        return tuple(found)
    raise ConfigurationError(f"{what}{given!r}; give a text, or several of them in a tuple")


LONGEST_NAME = 512
"""Characters of a key or name at most."""


def check_name(what: str, text: object) -> str:
    """Return the text; raise ConfigurationError, beginning with ``what``, if no store can keep it."""
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST_NAME:
        raise ConfigurationError(f"{what} is a text of 1 to {LONGEST_NAME} characters, not {text!r}")
    if not is_storable(text):
        raise ConfigurationError(f"{what} has a NUL or a lone surrogate, which no database stores: {text!r}")
    return text


def is_storable(text: str) -> bool:
    """Whether databases can keep the text: PostgreSQL knows no NUL, and UTF-8 no lone surrogate."""
    if "\x00" in text:
        return False
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False
