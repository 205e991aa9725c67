"""When a destination wants to be asked again: what an error, or the answer that it carries, says about that.

An error says it by an attribute ``retry_after`` (seconds, a timedelta or a date), an answer by its header
``Retry-After``, read off the exceptions of httpx, requests, aiohttp, stripe, botocore and whatever is made
like them. The engine asks after every failed request and attempt; the next try comes no sooner.

Invariant: nothing here raises or reads from the network, and what can't be read asks for nothing.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LONGEST = 366 * 86_400.0
"""Seconds: whoever says more has put something else into the field, such as the time since 1970."""
_CHAIN = 8


def pause_asked_by(error: BaseException) -> float:
    """Seconds before another try that the error, a member of its group, or its cause asks for.

    0 where none of them asks for anything; the longest where several do.
    """
    return max((_asked_by(one) for one in _parts(error, _CHAIN)), default=0.0)


def _parts(error: BaseException | None, depth: int) -> Iterator[BaseException]:
    if error is None or depth == 0:
        return
    yield error
    yield from _parts(error.__cause__, depth - 1)
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _parts(member, depth - 1)


def _asked_by(error: BaseException) -> float:
    from effectlog.destinations.answers import headers_of  # noqa: PLC0415 - large, and few need it

    with suppress(Exception):  # A property of a client's exception may do anything.
        own = _seconds(getattr(error, "retry_after", None), time.time())
        headers = headers_of(error)
        return max(own, _seconds(headers.get("retry-after"), _sent_at(headers)))
    return 0.0


def _sent_at(headers: Mapping[str, str]) -> float:
    """The destination's own clock, by which it reckons, or ours."""
    with suppress(ValueError, KeyError):
        return parsedate_to_datetime(headers["date"]).timestamp()
    return time.time()


def _seconds(given: Any, now: float) -> float:
    match given:
        case bool() | None:
            return 0.0
        case str():
            with suppress(ValueError):
                return _sensible(float(given))
            with suppress(ValueError):
                return _seconds(parsedate_to_datetime(given), now)
            return 0.0
        case int() | float():
            return _sensible(float(given))
        case timedelta():
            return _sensible(given.total_seconds())
        case datetime():
            aware = given if given.tzinfo is not None else given.replace(tzinfo=UTC)
            return _sensible(aware.timestamp() - now)
    return 0.0


def _sensible(seconds: float) -> float:
    return seconds if math.isfinite(seconds) and 0.0 <= seconds <= _LONGEST else 0.0
