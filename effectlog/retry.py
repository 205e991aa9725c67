"""When a run, or an effect inside an attempt, is tried again, and after how many seconds.

Leaf module, pure: counts in, seconds or a verdict out.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from effectlog.errors import ConfigurationError
from effectlog.validation import CENTURY, error_types, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from effectlog.clock import Duration


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how fast to try again.

    Args:
        max_attempts: the ``error`` or timeout that ends it; ``1`` means never again, so that an
            interrupted run fails instead of being taken over.
        max_crashes: the crash (lease lapsed, process died) that ends a run; crashes are counted apart.
        delay: seconds (or a timedelta) before the first retry after an error, which takes place behind the
            runs that are due by then, also with ``0``. Crashes are retried at once.
        backoff: each further delay is this many times the one before.
        max_delay: no delay is longer than this (seconds, or a timedelta), jitter apart, and what an error asks
            for by ``retry_after`` or its answer's ``Retry-After``: the next try never comes sooner than that.
        jitter: each delay is lengthened by up to this share of itself, so that retries spread.
        give_up_on: exception types (matched by ``isinstance``) after which trying again is pointless.
    """

    max_attempts: int = 3
    max_crashes: int = 5
    delay: float = 1.0
    backoff: float = 2.0
    max_delay: float = 300.0
    jitter: float = 0.1
    give_up_on: tuple[type[BaseException], ...] = ()

    if TYPE_CHECKING:  # Durations are given either way, and kept in seconds.

        def __init__(
            self,
            max_attempts: int = 3,
            max_crashes: int = 5,
            delay: Duration = 1.0,
            backoff: float = 2.0,
            max_delay: Duration = 300.0,
            jitter: float = 0.1,
            give_up_on: type[BaseException] | Sequence[type[BaseException]] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("max_attempts", "max_crashes"):
            # Not stored, so no number is too large: sys.maxsize is how people say "for ever".
            whole(getattr(self, name), f"Retry({name}", least=1, most=math.inf)
        for name, at_least in (("delay", 0.0), ("backoff", 1.0), ("max_delay", 0.0), ("jitter", 0.0)):
            given = self._in_seconds(name)
            is_number = isinstance(given, int | float) and not isinstance(given, bool)
            endless = name != "max_delay" and given == math.inf
            if not is_number or not given >= at_least or endless:
                raise ConfigurationError(f"Retry({name}={given!r}): give a number from {at_least:g} on")
        give_up_on = error_types(self.give_up_on, "Retry(give_up_on=)")
        object.__setattr__(self, "give_up_on", give_up_on)

    def _in_seconds(self, name: str) -> Any:
        given = getattr(self, name)
        if name in ("delay", "max_delay") and isinstance(given, timedelta):
            given = given.total_seconds()
            object.__setattr__(self, name, given)
        return given

    @staticmethod
    def checked(given: Any, what: str) -> Retry | None:
        """The given ``retry=``, or None where there is none; ConfigurationError for anything else."""
        if given is None or isinstance(given, Retry):
            return given
        raise ConfigurationError(f"{what}: retry={given!r}; give a Retry, as in Retry(max_attempts=5)")

    def delay_after(self, errors: int, at_least: float = 0.0) -> float:
        """Seconds to wait after the ``errors``-th error.

        At least the declared delay and ``at_least``, never less.
        """
        try:
            base = min(self.delay * self.backoff ** (errors - 1), self.max_delay)
        except OverflowError:
            base = self.max_delay
        spread = 1.0 + self.jitter * random.random()  # noqa: S311 - no secret
        return min(max(base, at_least) * spread, CENTURY)

    def longest_wait(self) -> float:
        """Seconds of delay before the last try, if every earlier try fails and delays are at their longest."""
        retries = self.max_attempts - 1
        delay, total = self.delay, 0.0
        if self.backoff <= 1.0 or delay <= 0.0:
            total, retries = retries * min(delay, self.max_delay), 0
        while retries > 0 and delay < self.max_delay:
            total, delay, retries = total + delay, delay * self.backoff, retries - 1
        return (total + retries * self.max_delay) * (1.0 + self.jitter)

    def ends_after_error(self, errors: int) -> bool:
        """Whether the ``errors``-th error is the last one allowed."""
        return errors >= self.max_attempts

    def ends_after_crash(self, crashes: int) -> bool:
        """Whether the ``crashes``-th crash is the last one allowed."""
        return crashes > 0 and (self.max_attempts == 1 or crashes >= self.max_crashes)
