"""The rows a store keeps, as mutable values: what the rules read and change inside a transaction.

Leaf module. Times ending in ``_at`` are seconds since the epoch by the store's wall clock; ``lease_expires``
is in the store's lease clock, whose identity stands in ``lease_clock``. Rows are many and hold nothing that
could refer back to them, so the garbage collector need not look at them.
"""

from __future__ import annotations

import math
from copy import copy

from msgspec import Struct, field

from effectlog.errors import ConfigurationError
from effectlog.model import AttemptOutcome, EffectState, ErrorInfo, Policy, RunState


class RunRow(Struct, gc=False):
    """The changing part of a run: its state, its owner, its counters. Payloads stay in the store."""

    id: str
    task: str
    state: RunState
    due_at: float
    attempt: int = 0
    attempt_outcome: AttemptOutcome | None = None
    owner: str | None = None
    lease_expires: float = 0.0
    lease_clock: str = ""
    releasing: bool = False
    errors: int = 0
    crashes: int = 0
    cancel_requested: bool = False
    finished_at: float | None = None
    error: ErrorInfo | None = None
    result: bytes | None = None
    """Only written, never loaded with the row: None leaves what the store holds."""
    waits_since: float | None = None
    """When a pending run's wait until ``due_at`` began; None where somebody asked for that very time."""

    def copy(self) -> RunRow:
        return copy(self)

    def due_in(self, now: float) -> float:
        """Seconds until the run is due, 0 once it is.

        A clock that shows less than when the wait began was set back since, and says nothing about the wait.
        """
        if self.waits_since is not None and now < self.waits_since:
            return 0.0
        return max(0.0, self.due_at - now)


class NewRun(Struct, gc=False):
    """A run as it is created. ``delay`` counts from the store's now unless ``due_at`` is given."""

    id: str
    task: str
    args: bytes
    delay: float = 0.0
    due_at: float | None = None
    waits_since: float | None = None
    """As in ``RunRow``; the rules set it."""
    created_at: float = 0.0
    """The rules set it."""
    event: str | None = None
    scope: str | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    parent_id: str | None = None
    depth: int = 0
    concurrency_key: str | None = None
    trace: str | None = None

    def __post_init__(self) -> None:
        # SQLite would refuse a due time that is no number, and PostgreSQL would keep it: a run that is never
        # due.
        if not math.isfinite(self.delay if self.due_at is None else self.due_at):
            raise ConfigurationError(
                f"a run of {self.task} can't be due at {self.due_at} or in {self.delay} seconds; give a "
                f"moment"
            )


class AttemptRow(Struct, gc=False):
    """One attempt; written when it begins and again when it ends."""

    run_id: str
    number: int
    owner: str
    worker: str
    started_at: float
    ended_at: float | None = None
    outcome: AttemptOutcome | None = None
    error: ErrorInfo | None = None
    trace: str | None = None


class RequestClock(Struct, gc=False):
    """When a request was sent, by two clocks of the sender: the wall, and one that nobody can step."""

    wall: float
    boot: float
    boot_id: str


class EffectRow(Struct, gc=False):
    """One effect of one run. ``version`` grows with every change, so that a reader can prove it saw all.

    ``executing`` holds the attempts whose request has not returned; ``open_requests`` counts the
    requests without a known outcome, those executing included.
    """

    run_id: str
    key: str
    name: str
    operation_id: str
    fingerprints: dict[str, str]
    policy: Policy
    state: EffectState = EffectState.STARTED
    version: int = 0
    generation: int = 0
    requests: int = 0
    open_requests: int = 0
    executing: tuple[int, ...] = ()
    attempt: int = 0
    first_request: RequestClock | None = None
    started_at: float = 0.0
    finished_at: float | None = None
    final: bool = False
    result: bytes | None = None
    result_error: str | None = None
    error: ErrorInfo | None = None
    destination: str | None = None
    resolved_by: str | None = None
    evidence: str | None = None
    late_result: bytes | None = None
    late_attempt: int | None = None

    @property
    def unsettled(self) -> bool:
        """A request was or may have been made, and its outcome is not known."""
        return self.state is EffectState.STARTED

    def copy(self) -> EffectRow:
        return copy(self)

    @property
    def settled_for_good(self) -> bool:
        """No request may follow: there is a result, or the destination said no for good."""
        return self.state is EffectState.COMPLETED or self.final


class UnsettledEffect(Struct, gc=False):
    """An effect without a known outcome, as lists need it: its key, and the attempts executing it."""

    run_id: str
    key: str
    executing: tuple[int, ...]


class StoredSummary(Struct):
    """One run as read for a list: the row, and of its history no more than counts. No values."""

    row: RunRow
    created_at: float
    idempotency_key: str | None = None
    correlation_id: str | None = None
    parent_id: str | None = None
    attempts: int = 0
    requests: int = 0
    unsettled: list[UnsettledEffect] = field(default_factory=list)
    result: bytes | None = None
    """Only where it was asked for."""
    damage: str | None = None
    """What of it can't be read, and is left out here."""


class StoredRun(Struct):
    """One run as read for people and for execution: the row, its payloads, its history."""

    row: RunRow
    args: bytes
    created_at: float
    result: bytes | None = None
    scope: str | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    parent_id: str | None = None
    event: str | None = None
    depth: int = 0
    trace: str | None = None
    attempts: list[AttemptRow] = field(default_factory=list)
    effects: list[EffectRow] = field(default_factory=list)
    damage: str | None = None
    """What of it can't be read, and is left out here; such a run is never executed."""
