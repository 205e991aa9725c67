"""The three clocks, as one object that tests can replace.

``wall`` is for people and due times. ``monotonic`` decides leases on one machine: nobody can step
it, and ``identity`` names the machine's boot and time namespace, so that two readings are compared
only where they mean the same. ``boot`` also runs while the machine sleeps, for the send horizon.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """What effectlog asks of time, in seconds."""

    @property
    def identity(self) -> str:
        """Names the machine's boot and time namespace."""

    def wall(self) -> float:
        """Seconds since the epoch; may be stepped."""

    def monotonic(self) -> float:
        """Seconds that never step, shared by all processes of the machine."""

    def boot(self) -> float:
        """As ``monotonic``, and counting the time asleep where the platform can tell."""


class SystemClock:
    """The machine's own clocks."""

    @property
    def identity(self) -> str:
        return _identity()

    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def boot(self) -> float:
        if hasattr(time, "CLOCK_BOOTTIME"):
            return time.clock_gettime(time.CLOCK_BOOTTIME)
        return time.monotonic()


@cache
def _identity() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        # Elsewhere the monotonic clock counts from boot, so the boot's wall time names it.
        return f"boot-at-{round((time.time() - time.monotonic()) / 60)}"
    try:
        namespace = str(Path("/proc/self/ns/time").readlink())
    except OSError:
        namespace = "time:[host]"
    return f"{boot}/{namespace}"


def utc(seconds: float) -> datetime:
    """A stored time as people read it; one beyond all calendars is shown as the calendar's end."""
    return datetime.fromtimestamp(min(max(seconds, _FIRST), _LAST), UTC)


_FIRST = datetime.min.replace(tzinfo=UTC).timestamp()
_LAST = datetime.max.replace(tzinfo=UTC).timestamp() - 1
