"""The working set of one PostgreSQL transaction: the rows it locked and loaded, and writing them back.

Everything is set-based: one statement a kind, whatever the size. The invariant: a transaction never
waits for a run that somebody else has locked; such a run is *blocked*, and nothing is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from effectlog.model import RunState
from effectlog.store import columns
from effectlog.store.postgres.errors import LostRaceError
from effectlog.store.postgres.schema import lock_key, owner_key
from effectlog.store.rules.working_set import WorkingSet

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from effectlog.store.postgres.connections import Querying
    from effectlog.store.rows import EffectRow
    from effectlog.store.rules.working_set import IdempotencyKey, RowsNeeded

LEASE_CLOCK = "server"
"""Leases are in the server's wall clock, which a restart or a promotion does not change."""


_COLUMNS: Mapping[str, Callable[[Any], columns.Columns]] = {
    "insert_key": columns.key_insert,
    "insert_run": columns.run_insert,
    "insert_attempt": columns.attempt_insert,
    "note_trace": columns.trace_update,
    "end_attempt": columns.attempt_end,
    "save_effect": columns.effect_columns,
    "update_run": columns.run_update,
}


class BlockedError(Exception):
    """Somebody else's transaction holds these runs' rows. Nothing was done."""

    def __init__(self, run_ids: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(run_ids)))
        self.run_ids = run_ids


class Batch:
    """The working set of one transaction, and the statements that fill and flush it."""

    def __init__(
        self, connection: Querying, sql: Mapping[str, str], schema: str, *, locking: bool = True
    ) -> None:
        self.connection = connection
        self.sql = sql
        self._schema = schema
        self._lock = "lock_runs" if locking else "see_runs"
        self.working_set = WorkingSet(now=0.0, lease_now=0.0, lease_clock=LEASE_CLOCK)
        self.wrote = False
        self.news = False
        """Something changed that other processes may be waiting for."""

    async def fetch(self, statement: str, *args: Any) -> list[Any]:
        return await self.connection.fetch(self.sql[statement], *args)

    async def write(self, statement: str, *args: Any) -> list[Any]:
        self.wrote = True
        return await self.fetch(statement, *args)

    async def write_rows(self, statement: str, rows: Sequence[Sequence[Any]]) -> list[Any]:
        """Write many rows by one statement that takes an array for each column."""
        return await self.write(statement, *zip(*rows, strict=True))

    # --- locking and loading ---------------------------------------------------------------------

    async def lock_limits(self, names: Iterable[str]) -> None:
        """Keep other claimers away from these limited tasks until the end of the transaction."""
        keys = [lock_key(self._schema, "limit", name) for name in names]
        if keys:
            await self.fetch("advisory_locks", keys)

    async def without_lock(self, owners: Iterable[str]) -> frozenset[str]:
        """Those owners whose session lock is free, and stays so until the end of the transaction."""
        asked = sorted(owners)
        rows = await self.fetch("lock_owners", [owner_key(self._schema, owner) for owner in asked])
        return frozenset(owner for owner, (free,) in zip(asked, rows, strict=True) if free)

    async def lock_runs(self, run_ids: Iterable[str]) -> set[str]:
        """Lock and load the runs that nobody else has locked; returns the others. Reads the clocks."""
        wanted = set(run_ids)
        rows = await self.fetch(self._lock, sorted(wanted))
        # The last row was returned after all of them were locked: a wait must not lengthen a lease.
        self.working_set.now = self.working_set.lease_now = max(row[17] for row in rows)
        present = {row[0]: tuple(row)[:17] for row in rows if row[0] is not None}
        for run in columns.readable(columns.run_from, present.values()):
            self.working_set.runs[run.id] = run
        return wanted - present.keys()

    async def load(self, wanted: RowsNeeded) -> None:
        """Lock the runs and load the rest; raises BlockedError if a run is locked elsewhere."""
        missing = await self.lock_runs(wanted.runs)
        if missing:
            blocked = frozenset(row[0] for row in await self.fetch("existing_runs", sorted(missing)))
            if blocked:
                raise BlockedError(blocked)
        if wanted.effects:
            rows = await self.fetch("load_effects", *zip(*wanted.effects, strict=True))
            self._keep_effects(columns.effect_from(tuple(row)) for row in rows)
        unsettled_of = self.working_set.need_unsettled(wanted)
        if unsettled_of:
            rows = await self.fetch("load_unsettled", sorted(unsettled_of))
            self._keep_effects(columns.readable(columns.effect_from, map(tuple, rows)))
        await self.load_keys(wanted.keys)

    async def load_keys(self, keys: Collection[IdempotencyKey]) -> None:
        if keys:
            for row in await self.fetch("load_keys", *zip(*keys, strict=True)):
                self.working_set.keys[row[0], row[1]] = columns.key_from(row)

    def _keep_effects(self, effects: Iterable[EffectRow]) -> None:
        for effect in effects:
            self.working_set.effects.setdefault((effect.run_id, effect.key), effect)

    # --- writing back ----------------------------------------------------------------------------

    async def flush(self) -> None:
        """Write what the rules changed so far, so that the queries that follow see it."""
        working_set = self.working_set
        self.news = (
            self.news or bool(working_set.new_runs) or any(map(self._is_news, working_set.changed_runs))
        )
        for statement, rows in working_set.pending():
            written = await self.write_rows(statement, list(map(_COLUMNS[statement], rows)))
            if statement == "insert_key" and len(written) < len(rows):
                raise LostRaceError("an idempotency key was taken by another process")
        working_set.clear_changes()

    def _is_news(self, run_id: str) -> bool:
        run = self.working_set.runs[run_id]
        return run.state is not RunState.RUNNING or run.cancel_requested
