"""A store that persists neither owner nor lease, built around one that does.

It stands for an adapter that installs without complaint and leaves the ownership columns out: whoever opens
it finds running runs that seem to be nobody's and makes them claimable, fences can't be compared with
anything, and the first to finish wins. For experiments: the check at open refuses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from effectlog.store import commands as c

if TYPE_CHECKING:
    from collections.abc import Sequence

    from effectlog.store.protocol import RunFilter, Store
    from effectlog.store.rows import RunRow, StoredRun, StoredSummary

R = TypeVar("R", "StoredRun", "StoredSummary")


class ForgetfulStore:
    """Everything that ``inner`` does, as if it had no columns for owner and lease."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        # What has nothing to do with ownership stays the inner store's.
        return getattr(self._inner, name)

    @property
    def name(self) -> str:
        return f"{self._inner.name} without owner and lease"

    async def open(self) -> None:
        await self._inner.open()
        await self._recover()

    async def _recover(self) -> None:
        """What runs now has no owner that could be looked up, so it is taken for interrupted."""
        for run in await self._inner.lapsed(frozenset(await self._inner.owners())):
            # By force, because the inner store may know better than to call a live owner dead.
            await self._inner.apply([c.RetryRun(run.id, force=True)])

    async def apply(self, commands: Sequence[c.Command]) -> list[c.Outcome]:
        outcomes: list[c.Outcome] = []
        for command in commands:
            if isinstance(command, c.Renew):
                outcomes.append(await self.renew(command))
            else:
                outcomes += await self._inner.apply([await self._unfenced(command)])
        return outcomes

    async def renew(self, command: c.Renew) -> c.Outcome:  # noqa: ARG002 - the protocol's
        """Nothing is renewed, and nobody is told that somebody else has the run."""
        return c.Renewed(frozenset(), frozenset())

    async def _unfenced(self, command: c.Command) -> c.Command:
        """The command as of whoever holds the run: with no owner stored, there is nobody to tell apart from."""
        fence = getattr(command, "fence", None)
        stored = None if fence is None else await self._inner.get(fence.run_id)
        if fence is None or stored is None:
            return command
        fenced: Any = command
        newest: c.Command = replace(fenced, fence=c.Fence(fence.run_id, stored.row.attempt))
        return newest

    async def get(self, run_id: str) -> StoredRun | None:
        stored = await self._inner.get(run_id)
        return None if stored is None else _without_owner(stored)

    async def summary(self, run_id: str, *, result: bool = False) -> StoredSummary | None:
        stored = await self._inner.summary(run_id, result=result)
        return None if stored is None else _without_owner(stored)

    async def find(self, query: RunFilter) -> list[StoredSummary]:
        return [_without_owner(stored) for stored in await self._inner.find(query)]

    async def owners(self) -> dict[str, str]:
        return {}

    async def lapsed(self, dead_owners: frozenset[str]) -> list[RunRow]:  # noqa: ARG002 - the protocol's
        return []


def _without_owner(stored: R) -> R:
    stored.row.owner, stored.row.lease_expires, stored.row.lease_clock = None, 0.0, ""
    return stored
