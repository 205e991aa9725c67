"""The working set of one transaction: which rows a batch needs, and which it changed."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from effectlog.model import RunState
from effectlog.store import commands as c

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from effectlog.store.rows import AttemptRow, EffectRow, NewRun, RunRow

IdempotencyKey = tuple[str, str]
"""(scope, key)"""
EffectId = tuple[str, str]
"""(run id, effect key)"""


class RowsNeeded(Struct):
    """What must be loaded, and kept from others, before a batch is executed."""

    runs: set[str] = field(default_factory=set)
    effects: set[EffectId] = field(default_factory=set)
    unsettled_of: set[str] = field(default_factory=set)
    """Runs of which every effect without a known outcome is needed."""
    keys: set[IdempotencyKey] = field(default_factory=set)


class KeyRow(Struct):
    """An idempotency key that has runs."""

    run_ids: tuple[str, ...]
    fingerprints: str


class Purged(Struct):
    """What a purge removes, and what the rest of its batch has to load anew."""

    runs: list[str] = field(default_factory=list)
    keys: set[IdempotencyKey] = field(default_factory=set)
    """Keys of the removed runs, each of which may be another run's as well."""
    keys_to_load: set[IdempotencyKey] = field(default_factory=set)
    """Those of the keys that the batch had loaded."""


class WorkingSet(Struct):
    """Rows by identity, with the store's clocks; ``changed_*`` and ``new_*`` are to be written back."""

    now: float
    lease_now: float
    lease_clock: str
    runs: dict[str, RunRow] = field(default_factory=dict)
    effects: dict[EffectId, EffectRow] = field(default_factory=dict)
    keys: dict[IdempotencyKey, KeyRow] = field(default_factory=dict)
    changed_runs: set[str] = field(default_factory=set)
    changed_effects: dict[EffectId, bool] = field(default_factory=dict)
    """True where the row was completed and nothing else: only its success columns are to be written."""
    new_runs: list[NewRun] = field(default_factory=list)
    new_keys: list[tuple[IdempotencyKey, KeyRow]] = field(default_factory=list)
    begun: list[AttemptRow] = field(default_factory=list)
    ended: list[AttemptRow] = field(default_factory=list)
    traced: list[tuple[str, int, str]] = field(default_factory=list)
    """(run id, attempt, trace)"""
    _by_run: dict[str, list[EffectRow]] = field(default_factory=dict)
    _indexed: int = 0
    """How many of the effects are in ``_by_run``."""

    def pending(self) -> Iterator[tuple[str, Sequence[Any]]]:
        """What is to be written back, as (statement, rows), in the order in which it has to be written.

        Keys come first: who lost one to somebody else finds out before anything else is written. Effects and
        attempts come before their run, and all of them in the order of their identities, as locks are taken.
        """
        if self.new_keys:
            yield "insert_key", self.new_keys
        if self.new_runs:
            yield "insert_run", self.new_runs
        if self.begun:
            yield "insert_attempt", self.begun
        if self.traced:
            yield "note_trace", self.traced
        if self.ended:
            yield "end_attempt", self.ended
        if self.changed_effects:
            yield "save_effect", [self.effects[identity] for identity in sorted(self.changed_effects)]
        if self.changed_runs:
            yield "update_run", [self.runs[run_id] for run_id in sorted(self.changed_runs)]

    def clear_changes(self) -> None:
        """Forget what was to be written, because it has been, or because the transaction was rolled back."""
        for pending in (self.changed_runs, self.changed_effects):
            pending.clear()
        for rows in (self.new_runs, self.new_keys, self.begun, self.ended, self.traced):
            rows.clear()

    def purged(self, rows: Iterable[tuple[str, str, str | None]]) -> Purged:
        """Forget the runs that a purge removes, given as (id, scope, idempotency key).

        Their keys are forgotten as well, and go from the store where no run is left that has them.
        """
        found = Purged()
        for run_id, scope, key in rows:
            found.runs.append(run_id)
            if key is not None:
                found.keys.add((scope, key))
        found.keys_to_load = found.keys & self.keys.keys()
        for identity in found.keys_to_load:
            del self.keys[identity]
        self.forget_runs(set(found.runs))
        return found

    def need_unsettled(self, wanted: RowsNeeded) -> set[str]:
        """The runs of which every unsettled effect is needed, once the wanted runs are loaded.

        An outcome or a decision lets a held run go on only if it was the last one missing.
        """
        held = {run.id for run in self.runs.values() if run.state is RunState.HELD}
        return wanted.unsettled_of | held

    def forget_runs(self, run_ids: set[str]) -> None:
        """Drop runs that were removed from the store, so that the rest of the batch can't bring them back."""
        for run_id in run_ids:
            self.runs.pop(run_id, None)
        for effect_id in [effect_id for effect_id in self.effects if effect_id[0] in run_ids]:
            del self.effects[effect_id]
        self._by_run = {}
        self._indexed = 0

    def lapsed(self, run: RunRow, dead_owners: frozenset[str] = frozenset()) -> bool:
        """Nobody owns the run any more: its lease ran out by our clock, or its owner is known dead."""
        if run.owner in dead_owners:
            return True
        return run.lease_clock == self.lease_clock and run.lease_expires <= self.lease_now

    def owns(self, fence: c.Fence) -> bool:
        """The fence: state running, this attempt, an unexpired lease."""
        run = self.runs.get(fence.run_id)
        return (
            run is not None
            and run.state is RunState.RUNNING
            and run.attempt == fence.attempt
            and not self.lapsed(run)
        )

    def change_run(self, run: RunRow) -> None:
        self.changed_runs.add(run.id)

    def change_effect(self, effect: EffectRow, *, completed: bool = False) -> None:
        effect.version += 1
        identity = (effect.run_id, effect.key)
        self.effects[identity] = effect
        self.changed_effects[identity] = completed and identity not in self.changed_effects

    def unsettled(self, run_id: str) -> Iterator[EffectRow]:
        for (owner, _), effect in islice(self.effects.items(), self._indexed, None):
            self._by_run.setdefault(owner, []).append(effect)
        self._indexed = len(self.effects)
        for effect in self._by_run.get(run_id, ()):
            if effect.unsettled:
                yield effect


def needs(commands: Iterable[c.Command]) -> RowsNeeded:
    """Name the rows that these commands read or change; a claim's candidates are the store's to find."""
    found = RowsNeeded()
    for command in commands:
        _add_needs(found, command)
    return found


def _add_needs(found: RowsNeeded, command: c.Command) -> None:
    match command:
        case c.StartEffect() | c.FinishEffect():
            found.runs.add(command.fence.run_id)
            found.effects.add((command.fence.run_id, command.key))
        case c.Renew():
            found.runs.update(fence.run_id for fence in command.fences)
        case c.EndAttempt():
            found.runs.add(command.fence.run_id)
            found.unsettled_of.add(command.fence.run_id)
            if command.on_dead is not None:
                found.keys.add((command.on_dead.scope or "", command.on_dead.idempotency_key or ""))
        case c.CreateRuns():
            if command.fence is not None:
                found.runs.add(command.fence.run_id)
            if command.idempotency_key is not None:
                scopes = (command.scope, *command.older_scopes)
                found.keys.update((scope, command.idempotency_key) for scope in scopes)
        case c.MarkReleasing() | c.NoteTrace():
            found.runs.add(command.fence.run_id)
        case c.SettleEffect():
            found.runs.add(command.run_id)
            found.effects.add((command.run_id, command.key))
            found.unsettled_of.add(command.run_id)
        case c.CancelRun() | c.RetryRun():
            found.runs.add(command.run_id)
            found.unsettled_of.add(command.run_id)
        case _:
            pass
