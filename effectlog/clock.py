"""The three clocks, as one object that tests can replace.

``wall`` is for people and due times. ``monotonic`` decides leases on one machine: nobody can step
it, and ``identity`` names the machine's boot and time namespace, so that two readings are compared
only where they mean the same. ``boot`` also runs while the machine sleeps, for the send horizon.
"""

from __future__ import annotations

import contextlib
import sys
import time
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Protocol

Duration = float | timedelta
"""What callers write for a length of time: a number of seconds, or a timedelta."""


class Clock(Protocol):
    """What effectlog asks of time, in seconds."""

    @property
    def identity(self) -> str:
        """Names the machine's boot and time namespace."""
        ...

    def wall(self) -> float:
        """Seconds since the epoch; may be stepped."""
        ...

    def monotonic(self) -> float:
        """Seconds that never step, shared by all processes of the machine."""
        ...

    def boot(self) -> float:
        """As ``monotonic``, and counting the time asleep where the platform can tell."""
        ...


class SystemClock:
    """The machine's own clocks.

    Where the machine can't name its boot, nobody could tell one monotonic reading from another's, so
    leases are then in the wall clock: a step of it ends leases early, or keeps those of the dead.
    """

    @property
    def identity(self) -> str:
        return _boot() or WALL_CLOCK

    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic() if _boot() else time.time()

    def boot(self) -> float:
        if hasattr(time, "CLOCK_BOOTTIME"):
            return time.clock_gettime(time.CLOCK_BOOTTIME)
        return self.monotonic()


WALL_CLOCK = "wall clock"


@cache
def _boot() -> str | None:
    """What names this boot of the machine, where the platform has such a name."""
    with contextlib.suppress(OSError, ValueError):
        if sys.platform == "win32":
            import winreg  # noqa: PLC0415 - exists there alone

            where = r"SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters"
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, where) as key:
                return f"boot-{winreg.QueryValueEx(key, 'BootId')[0]}"
        if sys.platform == "darwin":
            return _boot_session()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{_time_namespace()}"
    return None


def _boot_session() -> str | None:
    """What macOS calls this boot."""
    import subprocess  # noqa: PLC0415 - of all systems that one alone has to be asked by a program

    asked = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
    with contextlib.suppress(subprocess.SubprocessError):
        answer = subprocess.check_output(asked, text=True, timeout=5)  # noqa: S603 - fixed words
        return answer.strip() or None
    return None


def _time_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/time").readlink())
    except OSError:
        return "time:[host]"


def utc(seconds: float) -> datetime:
    """A stored time as people read it; one beyond all calendars is shown as the calendar's end."""
    # In this order, because a damaged row can hold NaN, which is later than all times to PostgreSQL too.
    return datetime.fromtimestamp(min(_LAST, max(seconds, _FIRST)), UTC)


_FIRST = datetime.min.replace(tzinfo=UTC).timestamp()
_LAST = datetime.max.replace(tzinfo=UTC).timestamp() - 1
