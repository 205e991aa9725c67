"""Everything that can be asked of a store, as frozen values, with what comes back.

Leaf module. A store applies a batch of commands in one transaction. A command whose condition
does not hold comes back ``Refused`` and changes nothing; the other runs of the batch go on.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

if TYPE_CHECKING:
    from effectlog.model import AttemptOutcome, ErrorInfo, Policy, RunState
    from effectlog.store.rows import EffectRow, NewRun, RequestClock, StoredRun


class Fence(Struct, frozen=True, gc=False):
    """Names one attempt of one run; what it asks counts only while that attempt owns the run."""

    run_id: str
    attempt: int


# --- commands ----------------------------------------------------------------------------------


class Chain(Struct, eq=False):
    """The writes of one attempt, which depend on each other in the order they were handed in.

    While one waits to be tried again, those after it wait behind it; once an outcome could not be
    recorded (``broken``: why not), none after it is.
    """

    broken: BaseException | None = None


class CreateRuns(Struct, frozen=True):
    """Create runs that share one idempotency key, or return those that already have it.

    ``older_scopes``: where else the key is looked for, because the task had other names once. With ``fence``
    (enqueue inside an attempt) a fenced-out attempt creates nothing. ``fingerprints`` are stored with the
    key; ``compared`` are those of the call itself, for whoever is told of an earlier one.
    """

    runs: tuple[NewRun, ...]
    scope: str
    idempotency_key: str | None = None
    fingerprints: str = "{}"
    fence: Fence | None = None
    older_scopes: tuple[str, ...] = ()
    compared: dict[str, str] = field(default_factory=dict)


class TaskLimit(Struct, frozen=True):
    """A task that a claimer can execute, under all its stored names."""

    names: tuple[str, ...]
    concurrency: int | None = None
    keyed: bool = False


class Claim(Struct, frozen=True):
    """Take up to ``limit`` due runs (or ``run_id``, if due) for ``lease`` seconds, within the tasks' limits.

    Runs that crashed ``SUSPECT_CRASHES`` times are claimed one at most, and only with ``suspects``.
    """

    owner: str
    worker: str
    lease: float
    tasks: tuple[TaskLimit, ...]
    limit: int
    suspects: bool = True
    run_id: str | None = None


SUSPECT_CRASHES = 2


class Renew(Struct, frozen=True):
    """Extend the leases of these attempts by ``lease`` seconds from the store's now."""

    owner: str
    lease: float
    fences: tuple[Fence, ...]


class Guard(StrEnum):
    """Who may end an attempt: its live owner, anyone once it lapsed, or a person by force."""

    OWNER = "owner"
    LAPSED = "lapsed"


class EndAttempt(Struct, frozen=True, gc=False):
    """End an attempt and move its run on.

    The store turns ``succeeded`` and ``failed`` into ``held`` while an effect whose policy is not to resend
    is in doubt, and ``pending``, ``held`` and ``failed`` into ``cancelled`` where that was asked for.
    ``on_dead`` is created in the same transaction if the run ends ``failed``.
    """

    fence: Fence
    outcome: AttemptOutcome
    state: RunState
    guard: Guard = Guard.OWNER
    dead_owners: frozenset[str] = frozenset()
    error: ErrorInfo | None = None
    result: bytes | None = None
    delay: float = 0.0
    holds: tuple[str, ...] = ()
    """Effects in doubt that must not be sent again without a decision, whatever their policy."""
    on_dead: NewRun | None = None


class MarkReleasing(Struct, frozen=True):
    """Say that an attempt is being given back, though something of it still runs."""

    fence: Fence


class NoteTrace(Struct, frozen=True):
    """Keep the context of an attempt's span, for the links of those that come after it."""

    fence: Fence
    trace: str


class StartEffect(Struct, frozen=True, gc=False):
    """Record that a request is about to be made. ``seen`` is the row version the caller decided on."""

    fence: Fence
    key: str
    seen: int
    name: str
    operation_id: str
    generation: int
    fingerprints: dict[str, str]
    policy: Policy
    clock: RequestClock
    destination: str | None = None


class RequestOutcome(StrEnum):
    """What became of one request."""

    COMPLETED = "completed"
    NOT_APPLIED = "not_applied"
    NOT_MADE = "not_made"
    """The function was never called, so it counts as no request."""
    FINAL = "final"
    UNKNOWN = "unknown"


class FinishEffect(Struct, frozen=True, gc=False):
    """Record what became of the request that this attempt made.

    ``new_operation``: the contract says that after this definite failure the next request needs a new id.
    """

    fence: Fence
    key: str
    outcome: RequestOutcome
    result: bytes | None = None
    result_error: str | None = None
    error: ErrorInfo | None = None
    new_operation: bool = False


class SettleEffect(Struct, frozen=True):
    """Answer an effect in doubt: by a person or program (no fence), or a look-up (fence and ``seen``)."""

    run_id: str
    key: str
    applied: bool
    by: str
    result: bytes | None = None
    evidence: str | None = None
    new_operation: bool = False
    fence: Fence | None = None
    seen: int | None = None
    dead_owners: frozenset[str] = frozenset()


class CancelRun(Struct, frozen=True):
    """Cancel now if nobody executes the run (or by force), else ask its owner to."""

    run_id: str
    force: bool = False
    dead_owners: frozenset[str] = frozenset()


class RetryRun(Struct, frozen=True):
    """Give a failed or cancelled run a new round of attempts; ``force`` fences out a live owner first."""

    run_id: str
    force: bool = False
    dead_owners: frozenset[str] = frozenset()


class Subscription(Struct, frozen=True):
    """A task that runs for each emit of an event, with what an emitter needs to make its run."""

    event: str
    task: str
    parameter: str
    concurrency_key: str | None = None
    aliases: tuple[str, ...] = ()
    """The task's names of before.

    Code of then may still open and subscribe under one: an emit makes no run for it.
    """


class Subscribe(Struct, frozen=True):
    """Replace what these tasks (by every name they have or had) are subscribed to; others' stay.

    A renamed task would otherwise be run twice for each event, under either name.
    """

    tasks: tuple[str, ...]
    subscriptions: tuple[Subscription, ...]


class ReportWorker(Struct, frozen=True):
    """Say that a worker is alive, what it can execute, and when it last claimed."""

    owner: str
    worker: str
    host: str
    pid: int
    concurrency: int
    claimed_at: float | None
    tasks: tuple[str, ...] = ()


class RemoveWorker(Struct, frozen=True):
    """Say that an owner is gone on purpose."""

    owner: str


class Purge(Struct, frozen=True):
    """Remove up to ``limit`` ended runs that finished at least ``older_than`` seconds ago, each whole.

    With ``run_ids``, only those of them. A run with an effect in doubt is never removed.
    """

    older_than: float
    states: tuple[RunState, ...]
    limit: int
    run_ids: tuple[str, ...] | None = None


Command: TypeAlias = (
    CreateRuns
    | Claim
    | Renew
    | EndAttempt
    | MarkReleasing
    | NoteTrace
    | StartEffect
    | FinishEffect
    | SettleEffect
    | CancelRun
    | RetryRun
    | Subscribe
    | ReportWorker
    | RemoveWorker
    | Purge
)


# --- outcomes ----------------------------------------------------------------------------------


class Refusal(StrEnum):
    """Why a command was refused."""

    NOT_OWNER = "not owner"
    NOT_FOUND = "not found"
    CHANGED = "changed"
    NOT_IN_DOUBT = "not in doubt"
    BEING_EXECUTED = "being executed"
    OWNER_ALIVE = "owner alive"
    WRONG_STATE = "wrong state"
    CANCELLING = "cancelling"
    BUSY = "busy"
    """Somebody else's open transaction is in the way; nothing changed, and trying again can help."""


class Refused(Struct, frozen=True):
    """The command's condition did not hold; ``effect`` and ``state`` are what the store has instead."""

    reason: Refusal
    state: RunState | None = None
    effect: EffectRow | None = None


class Done(Struct, frozen=True):
    """The command was applied and has nothing more to say."""


class Created(Struct, frozen=True):
    """The runs that have the key now; ``fingerprints`` are the stored ones."""

    run_ids: tuple[str, ...]
    created: bool
    fingerprints: str


class Claimed(Struct, frozen=True):
    """The runs that the claimer owns now, with payloads and journals. ``now`` is the store's wall clock."""

    runs: tuple[StoredRun, ...]
    now: float


class Renewed(Struct, frozen=True):
    """The run ids that are not owned any more, and those asked to cancel.

    ``blocked``: those neither renewed nor lost, because somebody else's open transaction is in the way.
    """

    lost: frozenset[str]
    cancelling: frozenset[str]
    blocked: frozenset[str] = frozenset()


class EffectStored(Struct, frozen=True, gc=False):
    """The effect as it is stored now. ``late`` says that the outcome was kept as evidence only."""

    effect: EffectRow
    late: bool = False


class RunMoved(Struct, frozen=True):
    """The state the run is in now; ``changed`` is false where somebody else had ended it before."""

    state: RunState
    changed: bool = True


class Purged(Struct, frozen=True):
    """How many runs were removed; fewer than the limit means that none is left."""

    count: int


Outcome: TypeAlias = Refused | Done | Created | Claimed | Renewed | EffectStored | RunMoved | Purged
