"""The server's wall clock: read with each transaction, carried on by a clock that never steps.

Hosts whose own clocks differ then agree on when a request was sent, within a round trip. What the other
clocks say is the host's own.
"""

from __future__ import annotations

from effectlog.clock import SystemClock


class ServerClock(SystemClock):
    """The host's clocks, with the server's wall time once it has been ``seen``."""

    def __init__(self) -> None:
        self._ahead: float | None = None

    def seen(self, server_now: float) -> None:
        """Remember what the server's clock showed just now."""
        self._ahead = server_now - self.monotonic()

    def wall(self) -> float:
        return super().wall() if self._ahead is None else self.monotonic() + self._ahead
