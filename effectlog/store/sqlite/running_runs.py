"""The rows of the runs that this process executes, kept between transactions while nobody else writes.

SQLite's ``data_version`` tells, inside the write transaction, whether another connection has committed
since: then, and after any failure, everything kept is forgotten. So a record costs its write alone and no
read, and a row that another process changed is always read anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from effectlog.model import RunState

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from effectlog.store.rows import EffectRow, RunRow, StoredRun
    from effectlog.store.rules.working_set import RowsNeeded, WorkingSet


@dataclass(slots=True)
class _Live:
    run: RunRow
    effects: dict[str, EffectRow] = field(default_factory=dict)
    """Every effect of the run, so that a missing one is known not to exist."""


class RunningRuns:
    """What one writer connection knows without reading."""

    def __init__(self) -> None:
        self._runs: dict[str, _Live] = {}
        self._version: int | None = None

    def check(self, connection: sqlite3.Connection) -> None:
        """Forget everything if another connection has written; to be called inside the transaction."""
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._runs.clear()
            self._version = version

    def forget(self) -> None:
        """Forget everything: what was changed in memory may not have been committed."""
        self._runs.clear()

    def fill(self, working_set: WorkingSet, wanted: RowsNeeded) -> None:
        """Answer what is known, and take it off what has to be read."""
        known = [run_id for run_id in wanted.runs if run_id in self._runs]
        for run_id in known:
            working_set.runs[run_id] = self._runs[run_id].run
        wanted.runs.difference_update(known)
        for run_id, key in [wanted_id for wanted_id in wanted.effects if wanted_id[0] in self._runs]:
            effect = self._runs[run_id].effects.get(key)
            if effect is not None:
                working_set.effects[run_id, key] = effect
            wanted.effects.discard((run_id, key))
        for run_id in [run_id for run_id in wanted.unsettled_of if run_id in self._runs]:
            for key, effect in self._runs[run_id].effects.items():
                if effect.unsettled:
                    working_set.effects[run_id, key] = effect
            wanted.unsettled_of.discard(run_id)

    def claimed(self, runs: list[StoredRun]) -> None:
        """Know these runs whole from now on; their rows are copied, because the caller hands them on."""
        for run in runs:
            if run.damage is not None:
                continue
            effects = {effect.key: effect.copy() for effect in run.effects}
            self._runs[run.row.id] = _Live(run.row.copy(), effects)

    def written(self, working_set: WorkingSet) -> None:
        """Keep up with what a batch wrote."""
        for run_id, key in working_set.changed_effects:
            live = self._runs.get(run_id)
            if live is not None:
                live.effects[key] = working_set.effects[run_id, key]
        for run_id in working_set.changed_runs:
            if run_id in self._runs:
                self._runs[run_id].run = working_set.runs[run_id]
                if working_set.runs[run_id].state is not RunState.RUNNING:
                    del self._runs[run_id]

    def removed(self, run_ids: Iterable[str]) -> None:
        """Runs were purged; none of them can be executing, but better to ask than to be wrong."""
        for run_id in run_ids:
            self._runs.pop(run_id, None)
