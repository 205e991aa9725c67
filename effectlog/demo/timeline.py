"""What was seen of one part, put in order on the clock that all processes share. Pure."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from effectlog.demo.processes import Event
    from effectlog.demo.scenarios import Counts, Part
    from effectlog.model import RunRecord


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """Something that happened, with the seconds since the first request was sent."""

    at: float
    who: str
    what: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one part."""

    part: Part
    counts: Counts
    moments: tuple[Moment, ...]

    @property
    def as_promised(self) -> bool:
        """Every count is what the part promised."""
        return self.counts == self.part.promised

    @property
    def took_over_in(self) -> float:
        """Seconds from the SIGKILL to the other worker's claim."""
        at = {moment.what: moment.at for moment in self.moments}
        return at[TAKEOVER] - at[SIGKILL]


SIGKILL = "is killed: SIGKILL"
TAKEOVER = "takes over: attempt 2"


def timeline(told: list[Event], first: Event, record: RunRecord) -> tuple[Moment, ...]:
    """Everything from the first request on; worker A is the one that sent it."""
    return tuple(sorted(_moments(told, first, record)))


def _moments(told: list[Event], first: Event, record: RunRecord) -> Iterator[Moment]:
    for event in told:
        who, what = _words(event, first)
        yield Moment(event.at - first.at, who, what)
    if first.child.killed_at is not None:
        yield Moment(first.child.killed_at - first.at, "A", SIGKILL)
    yield Moment(_shared(record.attempts[-1].started_at) - first.at, "B", TAKEOVER)
    if record.finished_at is not None:
        yield Moment(_shared(record.finished_at) - first.at, "B", f"is done: the run {record.state}")


def _words(event: Event, first: Event) -> tuple[str, str]:
    if event.name == "send":
        return ("A", "sends the charge") if event is first else ("B", "sends the charge again")
    if event.name == "accepted":
        return "destination", f"accepts it: effect {event.facts['nth']}"
    return "destination", "recognises the key: a duplicate, answered as the first"


def _shared(wall: datetime) -> float:
    """A store's wall-clock time on the clock that the processes tell their events by."""
    return wall.timestamp() - (time.time() - time.monotonic())
