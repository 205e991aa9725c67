"""What effectlog asks of a store: apply a batch of commands in one transaction, and a few reads.

A store keeps rows and holds a transaction; the rules stand in ``effectlog.store.rules``. On return of
``apply`` everything it reports is durable. Every method raises ``StoreError`` and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, runtime_checkable

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from os import PathLike

    from effectlog.clock import Clock
    from effectlog.model import RunState
    from effectlog.store.commands import Command, Outcome, Renew, Subscription
    from effectlog.store.rows import RunRow, StoredRun, StoredSummary


class RunFilter(Struct, frozen=True):
    """Which runs to list, newest first; ``before`` is the id of a run to go on from.

    Where that run is gone, those go on whose ids are less than its own: ids sort by time.
    """

    state: RunState | None = None
    task: str | None = None
    limit: int = 100
    before: str | None = None


class Due(Struct, frozen=True):
    """Whether runs are due now, and in how many seconds the next one becomes due that is not yet."""

    now: bool
    next_in: float | None


class WorkerRow(Struct, frozen=True):
    """A worker as it last reported itself."""

    owner: str
    worker: str
    host: str
    pid: int
    concurrency: int
    beat_at: float
    claimed_at: float | None
    tasks: tuple[str, ...] = ()


class Liveness(Protocol):
    """Knows whether an owner's process is gone, where the operating system or the server can tell."""

    async def hold(self, owner: str) -> None:
        """Begin to be alive as ``owner``; on return every other process can see it."""

    async def drop(self, owner: str) -> None:
        """Stop being alive as ``owner``."""

    async def dead(self, owners: frozenset[str], *, rebooted: bool = False) -> frozenset[str]:
        """Those of ``owners`` that are certainly gone. Doubt counts as alive: the lease decides.

        ``rebooted`` says that these owners' leases are in a clock that no longer runs, so that
        no sign of life is enough.
        """
        ...

    async def forget(self, owner: str) -> None:
        """Clear away what an owner known to be dead left behind."""


class Store(Protocol):
    """A transactional applier of commands."""

    @property
    def name(self) -> str:
        """The store's address as people may see it, without a password."""
        ...

    @property
    def clock(self) -> Clock:
        """The clocks that this store's callers use."""
        ...

    @property
    def liveness(self) -> Liveness:
        """Who of the owners is gone."""
        ...

    async def open(self) -> None:
        """Connect, check and migrate; raises ``StoreRefused`` with the reason and the advice."""

    async def close(self) -> None:
        """Release every resource; what was applied stays durable."""

    async def apply(self, commands: Sequence[Command]) -> list[Outcome]:
        """Apply all commands in order in one transaction and return their outcomes in that order.

        A command whose run is kept by somebody else's open transaction comes back ``Refusal.BUSY``.
        """
        ...

    async def changed(self) -> None:
        """Return when another process may have changed something, or after a poll interval."""

    async def get(self, run_id: str) -> StoredRun | None:
        """Read one run whole."""
        ...

    async def summary(self, run_id: str, *, result: bool = False) -> StoredSummary | None:
        """Read one run as a list shows it.

        With ``result`` also what it returned, and no other stored value.
        """
        ...

    async def find(self, query: RunFilter) -> list[StoredSummary]:
        """List runs, newest first. Reads no stored value: a page of runs may hold gigabytes."""
        ...

    async def states(self, run_ids: Sequence[str]) -> dict[str, RunState]:
        """The states of these runs; unknown ids are left out."""
        ...

    async def due(self, tasks: Sequence[str]) -> Due:
        """Whether runs of these tasks are due."""
        ...

    async def owners(self) -> dict[str, str]:
        """Every owner of a running run, with the identity of the clock its lease is in."""
        ...

    async def lapsed(self, dead_owners: frozenset[str]) -> list[RunRow]:
        """The running runs that nobody owns any more."""
        ...

    async def subscriptions(self, event: str) -> list[Subscription]:
        """The tasks subscribed to an event."""
        ...

    async def workers(self) -> list[WorkerRow]:
        """The workers that have reported themselves and not left."""
        ...

    async def health(self) -> dict[str, object]:
        """Facts for ``doctor``: counts by state, pending runs by task, sizes, oldest doubt."""
        ...


@runtime_checkable
class Concurrent(Protocol):
    """A store that takes several transactions at a time: a heartbeat need not wait for other writes."""

    async def renew(self, command: Renew) -> Outcome:
        """Apply one renewal beside whatever else is being applied."""
        ...


Apply: TypeAlias = "Callable[[Sequence[Command]], list[Outcome]]"


class Threaded(Protocol):
    """A store that applies batches on its own thread, where others may do so without a loop between."""

    def hand_over(self, work: Callable[[Apply], None]) -> None:
        """Call ``work`` on that thread, after what was handed over before, with a blocking ``apply``."""
        ...


def threaded(store: Store) -> Threaded | None:
    """The store as one with a thread, if it is.

    Where ``apply`` was overridden or wrapped, that is to be called.
    """
    applies = next((cls for cls in type(store).__mro__ if "apply" in vars(cls)), object)
    return cast("Threaded", store) if "hand_over" in vars(applies) else None


@runtime_checkable
class CountsDeadLetters(Protocol):
    """A store that counts its dead letters, without which ``doctor`` can't warn of them."""

    async def dead_letters(self, since: float) -> dict[str, int]:
        """How many runs of which task have failed since that wall time, and still are failed."""
        ...


@runtime_checkable
class TellsNextExpiry(Protocol):
    """A store that can tell when the next lease ends, so that a takeover need not wait for the next look."""

    async def next_lapse(self) -> float | None:
        """Seconds until the next lease of a running run ends; None where none is to end."""
        ...


@runtime_checkable
class Confirming(Protocol):
    """A store whose reads can show what a fail-over would take back, as no standby has it yet."""

    async def confirm(self) -> None:
        """Return once all that reads have shown so far is as durable as a write."""
        ...


@runtime_checkable
class JoinsTransactions(Protocol):
    """A store that can apply commands inside a transaction that somebody else began on its database."""

    async def apply_within(self, transaction: Any, commands: Sequence[Command]) -> list[Outcome]:
        """Apply them; stored if the transaction commits, gone if not.

        Where one is refused or late, none is.
        """
        ...

    def apply_within_sync(self, transaction: Any, commands: Sequence[Command]) -> list[Outcome]:
        """As ``apply_within``, on a connection of a blocking driver."""
        ...


@runtime_checkable
class AwaitedTransactions(JoinsTransactions, Protocol):
    """A store that opens transactions for async effects, each with ``connection`` and ``await commit()``."""

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """A transaction that is rolled back unless it is committed."""
        ...


@runtime_checkable
class BlockingTransactions(JoinsTransactions, Protocol):
    """A store that opens transactions for sync effects, each with ``connection`` and ``commit()``."""

    def transaction_sync(self) -> AbstractContextManager[Any]:
        """A transaction that is rolled back unless it is committed."""
        ...


@runtime_checkable
class BacksUp(Protocol):
    """A store that can copy itself into a file while it is in use."""

    async def backup(self, path: str | PathLike[str]) -> None:
        """Copy what is stored at one moment into a new file; durable on return."""
        ...


@runtime_checkable
class OpensForReading(Protocol):
    """A store that can be opened with fewer rights where nothing is going to be written."""

    def for_reading(self) -> None:
        """Say so, before ``open``."""
        ...


@runtime_checkable
class RemembersProof(Protocol):
    """A store that remembers, with its schema, that it passed the check at open."""

    async def mark(self) -> str | None:
        """The mark that was set since the newest migration."""
        ...

    async def set_mark(self, mark: str) -> None:
        """Keep a mark with the newest migration."""
