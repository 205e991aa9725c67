"""Commands in a transaction that is rolled back at the end: what the check at open is made on.

The invariant: nothing of a rehearsal is ever visible to anybody, also where its process is killed in the
middle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from effectlog.clock import Clock
    from effectlog.store.commands import Command, Outcome
    from effectlog.store.rows import StoredRun

T = TypeVar("T")


class DryRunTarget(Protocol):
    """As much of a store as a rehearsal needs."""

    @property
    def clock(self) -> Clock:
        """As ``Store.clock``."""
        ...

    async def apply(self, commands: Sequence[Command]) -> list[Outcome]:
        """As ``Store.apply``, but for being durable."""
        ...

    async def get(self, run_id: str) -> StoredRun | None:
        """As ``Store.get``."""
        ...


@runtime_checkable
class SupportsDryRun(Protocol):
    """A store that can show what it does without leaving a trace."""

    async def dry_run(self, use: Callable[[DryRunTarget], Awaitable[T]]) -> T:
        """Run ``use`` on a stage of this store, and roll back all that it did."""
        ...


class DryRunStore:
    """A stage made of two functions."""

    def __init__(
        self,
        clock: Clock,
        apply: Callable[[Sequence[Command]], Awaitable[list[Outcome]]],
        load: Callable[[Sequence[str]], Awaitable[list[StoredRun]]],
    ) -> None:
        self._clock = clock
        self._apply = apply
        self._load = load

    @property
    def clock(self) -> Clock:
        return self._clock

    async def apply(self, commands: Sequence[Command]) -> list[Outcome]:
        return await self._apply(commands)

    async def get(self, run_id: str) -> StoredRun | None:
        found = await self._load([run_id])
        return found[0] if found else None
