"""What ``doctor`` knows: facts about store, workers and runs. Leaf module: values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from effectlog.model import RunSummary


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """One worker that has reported itself and not left.

    ``silent``: it let a lease end, or has not reported for a minute; its process may be there all the same.
    ``cut_off``: it has no session with the server, by which others see that it is alive.
    """

    name: str
    host: str
    pid: int
    concurrency: int
    alive: bool
    reported_at: datetime
    claimed_at: datetime | None
    tasks: tuple[str, ...]
    silent: bool = False
    cut_off: bool = False


@dataclass(frozen=True, slots=True)
class PendingFacts:
    """The pending runs of one task.

    ``known``: a worker that is at work can execute it. ``executing``: a run of it is being executed now.
    """

    task: str
    count: int
    due_at: datetime
    known: bool
    executing: bool


@dataclass(frozen=True, slots=True)
class Health:
    """Everything ``doctor`` prints; ``problems`` need a person."""

    store: dict[str, Any]
    clock: dict[str, Any]
    states: dict[str, int]
    pending: tuple[PendingFacts, ...]
    workers: tuple[WorkerFacts, ...]
    stuck: tuple[str, ...]
    """Running runs that nobody owns any more."""
    held: tuple[str, ...]
    oldest_doubt_at: datetime | None
    dead_letters: dict[str, int] = field(default_factory=dict)
    """Recent ones of each task that nobody has retried or purged."""
    unreadable: tuple[RunSummary, ...] = ()
    """Pending runs that were given back, because no process that tried can read what is recorded of them."""
    problems: list[str] = field(default_factory=list)

    @property
    def alive(self) -> tuple[WorkerFacts, ...]:
        """The workers that are alive, as far as anybody can tell."""
        return tuple(worker for worker in self.workers if worker.alive)

    @property
    def working(self) -> tuple[WorkerFacts, ...]:
        """Those of them that give a sign of life."""
        return tuple(worker for worker in self.alive if not worker.silent)
