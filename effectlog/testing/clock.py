"""A clock that a test moves, so that leases lapse and delays end without anybody waiting."""

from __future__ import annotations


class MovableClock:
    """Wall, monotonic and boot clock in one, standing still until ``advance`` is called.

    Processes can't share it: it is for stores opened in the test's own process. ``wall`` starts at
    2027-01-15 so that stored times are easy to tell from real ones.
    """

    def __init__(self, wall: float = 1_800_000_000.0) -> None:
        self._wall = wall
        self._monotonic = 1_000.0
        self._boot = 1_000.0
        self._boots = 1

    @property
    def identity(self) -> str:
        return f"movable/{self._boots}"

    def wall(self) -> float:
        return self._wall

    def monotonic(self) -> float:
        return self._monotonic

    def boot(self) -> float:
        return self._boot

    def advance(self, seconds: float) -> None:
        """Let time pass: all three clocks go on by ``seconds``."""
        self._wall += seconds
        self._monotonic += seconds
        self._boot += seconds

    def sleep(self, seconds: float) -> None:
        """Suspend the machine for ``seconds``: its monotonic clock stands still, the others go on."""
        self._wall += seconds
        self._boot += seconds

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forward, or back with a negative number, as an administrator would."""
        self._wall += seconds

    def reboot(self) -> None:
        """Restart the machine: the monotonic and the boot clock begin anew under another identity."""
        self._monotonic = self._boot = 1.0
        self._boots += 1
