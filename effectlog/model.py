"""The words of effectlog as types: states, outcomes, policies, and the records people read.

Leaf module: frozen values only, no behaviour beyond what a value can say of itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from effectlog.clock import Duration


class RunState(StrEnum):
    """Where a run is. ``failed`` is a dead letter; ``held`` waits for a decision about an effect."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    HELD = "held"

    @property
    def ended(self) -> bool:
        """True for the three states that a run leaves only by ``retry``."""
        return self in _ENDED


_ENDED = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED})


class AttemptOutcome(StrEnum):
    """How one claimed execution of a run ended."""

    SUCCEEDED = "succeeded"
    ERROR = "error"
    TIMED_OUT = "timed_out"
    EXPIRED = "expired"
    RELEASED = "released"
    HELD = "held"
    CANCELLED = "cancelled"


class EffectState(StrEnum):
    """What the journal holds of an effect."""

    STARTED = "started"
    COMPLETED = "completed"
    FAILED = "failed"


class Policy(StrEnum):
    """The declared answer to doubt: send again, wait for a decision, or ask the destination."""

    RESEND = "resend"
    HOLD = "hold"
    LOOK_UP = "look-up"


@dataclass(frozen=True, slots=True)
class Applied:
    """The destination did apply the operation; ``value`` becomes the effect's result."""

    value: Any = None


@dataclass(frozen=True, slots=True)
class NotApplied:
    """The destination did not apply the operation, so it may be sent.

    ``new_operation=True`` gives the next request a new operation id, for destinations that
    remember a failed operation under its old one.
    """

    new_operation: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """The destination can't tell yet; it is asked again after ``retry_after`` (seconds, or a timedelta)."""

    retry_after: Duration | None = None


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An exception as stored: text only, so that reading it can never fail.

    ``type`` is the public path of its class, such as ``ValueError`` or ``effectlog.EffectConflict``.
    Three types are no classes, because nothing raised them: ``effectlog.WorkerLost`` (the process or the
    lease was gone), ``effectlog.Damaged`` (a stored row can't be read) and ``effectlog.UnreadableHere``
    (this process does not know the class of a recorded value).
    """

    type: str
    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One claimed execution of a run; ``number`` is its fence."""

    number: int
    worker: str
    started_at: datetime
    ended_at: datetime | None
    outcome: AttemptOutcome | None
    error: ErrorInfo | None


@dataclass(frozen=True, slots=True)
class EffectRecord:
    """One logical operation of a run.

    ``requests`` counts calls that were or may have been made, and no others.
    """

    key: str
    name: str
    operation_id: str
    state: EffectState
    in_doubt: bool
    final: bool
    requests: int
    started_at: datetime
    finished_at: datetime | None
    attempt: int
    result: Any
    error: ErrorInfo | None
    destination: str | None
    resolved_by: str | None
    evidence: str | None


WORKER_LOST = "effectlog.WorkerLost"
"""The type of the error of an attempt whose owner is gone: nobody raised it."""
DAMAGED = "effectlog.Damaged"
"""The type of the error of a run of which something stored can't be read."""
UNREADABLE_HERE = "effectlog.UnreadableHere"
"""The type of the error of an attempt that its process gave back, because it could not read what is recorded.
"""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run as lists return it, times in UTC: all of its record but the values and the history."""

    id: str
    task: str
    state: RunState
    error: ErrorInfo | None
    idempotency_key: str | None
    correlation_id: str | None
    parent_id: str | None
    created_at: datetime
    due_at: datetime
    finished_at: datetime | None
    dead_letter: bool


@dataclass(frozen=True, slots=True)
class RunRecord(RunSummary):
    """Everything stored about one run, times in UTC."""

    args: Mapping[str, Any]
    attempts: tuple[AttemptRecord, ...]
    effects: tuple[EffectRecord, ...]
    result: Any
