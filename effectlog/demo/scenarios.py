"""The three parts of the demo and what each promises. Leaf of the demo: data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from effectlog.demo import tasks

if TYPE_CHECKING:
    from effectlog.decorators.task import Task


@dataclass(frozen=True, slots=True)
class Counts:
    """Attempts by effectlog's records; requests and accepted effects by the destination's own file."""

    attempts: int
    requests: int
    effects: int


@dataclass(frozen=True, slots=True)
class Part:
    """One story: which task, where its worker dies, and what must come out."""

    order: str
    title: str
    task: Task[..., str, Any]
    path: str
    killed_after: str
    """``accepted``: inside the call, before the answer. ``completed``: once the journal has the result."""
    promised: Counts
    moral: str


PARTS = (
    Part(
        "order-1",
        "Killed before the answer arrived; no idempotency key",
        tasks.sell,
        "/slow",
        "accepted",
        Counts(attempts=2, requests=2, effects=2),
        "charged twice: nobody can tell the resend from a second order",
    ),
    Part(
        "order-2",
        "Killed before the answer arrived; the operation id is the idempotency key",
        tasks.sell_with_key,
        "/slow",
        "accepted",
        Counts(attempts=2, requests=2, effects=1),
        "charged once: the destination knows the key",
    ),
    Part(
        "order-3",
        "Killed after the answer was recorded",
        tasks.sell_and_pack,
        "",
        "completed",
        Counts(attempts=2, requests=1, effects=1),
        "charged once: the result comes from the journal, nothing is sent",
    ),
)
