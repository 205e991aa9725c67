"""Telemetry's own errors, such as those of a user's span processor: logged once, and never the run's."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D")

logger = logging.getLogger("effectlog")
_told: set[tuple[str, type[Exception]]] = set()


def harmless(instead: D) -> Callable[[Callable[P, R]], Callable[P, R | D]]:
    """Make a function return ``instead`` where it would raise."""

    def decorate(function: Callable[P, R]) -> Callable[P, R | D]:
        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R | D:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                _tell(function.__qualname__, error)
                return instead

        return guarded

    return decorate


def _tell(where: str, error: Exception) -> None:
    about = (where, type(error))
    if about in _told:
        return
    _told.add(about)
    logger.warning(
        "effectlog: telemetry failed in %s, which harms no run and is not reported again: %s: %s",
        where,
        type(error).__qualname__,
        error,
        exc_info=error,
    )
