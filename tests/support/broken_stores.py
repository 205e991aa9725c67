"""Stores that each miss one guarantee, as adapters in the field have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from effectlog.model import EffectState, Policy, RunState
from effectlog.store import commands as c
from support.dict_store import Database, DictStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from effectlog.store.rows import StoredRun
    from effectlog.store.rules.working_set import WorkingSet


class ForgetsOwners(DictStore):
    """Stores neither owner nor lease: a running run is anybody's."""

    def decide(self, db: Database, working_set: WorkingSet, command: c.Command) -> c.Outcome:
        if isinstance(command, c.Claim):
            for row in working_set.runs.values():
                if row.state is RunState.RUNNING:
                    row.state = RunState.PENDING
        return super().decide(db, working_set, command)

    async def get(self, run_id: str) -> StoredRun | None:
        stored = await super().get(run_id)
        if stored is not None:
            stored.row.owner, stored.row.lease_expires, stored.row.lease_clock = None, 0.0, ""
        return stored


class SharesRunningRuns(ForgetsOwners):
    """Stores the owner and never looks at it."""

    async def get(self, run_id: str) -> StoredRun | None:
        return await DictStore.get(self, run_id)


class IgnoresFences(DictStore):
    def decide(self, db: Database, working_set: WorkingSet, command: c.Command) -> c.Outcome:
        fence = getattr(command, "fence", None)
        if fence is not None and fence.run_id in working_set.runs:
            command = replace(command, fence=self._newest(working_set, fence))  # type: ignore[call-arg,type-var]
        if isinstance(command, c.Renew):
            command = replace(
                command, fences=tuple(self._newest(working_set, fence) for fence in command.fences)
            )
        return super().decide(db, working_set, command)

    def _newest(self, working_set: WorkingSet, fence: c.Fence) -> c.Fence:
        return (
            c.Fence(fence.run_id, working_set.runs[fence.run_id].attempt)
            if fence.run_id in working_set.runs
            else fence
        )


class ReusesFences(DictStore):
    def decide(self, db: Database, working_set: WorkingSet, command: c.Command) -> c.Outcome:
        if isinstance(command, c.Claim) and command.run_id in working_set.runs:
            working_set.runs[command.run_id].attempt = 0
        return super().decide(db, working_set, command)


class RenewsLapsedLeases(DictStore):
    def decide(self, db: Database, working_set: WorkingSet, command: c.Command) -> c.Outcome:
        if isinstance(command, c.Renew):
            for fence in command.fences:
                if fence.run_id in working_set.runs:
                    working_set.runs[fence.run_id].lease_expires = working_set.lease_now + 1
        return super().decide(db, working_set, command)


class NeverLapses(DictStore):
    def decide(self, db: Database, working_set: WorkingSet, command: c.Command) -> c.Outcome:
        working_set.lease_now = 0.0
        return super().decide(db, working_set, command)


class AcceptsUnseen(DictStore):
    def decide(self, db: Database, working_set: WorkingSet, command: c.Command) -> c.Outcome:
        if isinstance(command, c.StartEffect):
            effect = working_set.effects.get((command.fence.run_id, command.key))
            command = replace(command, seen=effect.version if effect else 0)
        return super().decide(db, working_set, command)


class OverwritesResults(DictStore):
    def decide(self, db: Database, working_set: WorkingSet, command: c.Command) -> c.Outcome:
        if isinstance(command, c.FinishEffect):
            effect = working_set.effects.get((command.fence.run_id, command.key))
            if effect is not None and effect.state is EffectState.COMPLETED:
                effect.state, effect.open_requests = EffectState.STARTED, 1
        return super().decide(db, working_set, command)


class DropsLateOutcomes(DictStore):
    def decide(self, db: Database, working_set: WorkingSet, command: c.Command) -> c.Outcome:
        if isinstance(command, c.FinishEffect):
            run = working_set.runs.get(command.fence.run_id)
            if run is not None and run.attempt != command.fence.attempt:
                return c.Refused(c.Refusal.NOT_OWNER)
        return super().decide(db, working_set, command)


class KeepsTheFirstHorizon(DictStore):
    def decide(self, db: Database, working_set: WorkingSet, command: c.Command) -> c.Outcome:
        effect = (
            working_set.effects.get((command.fence.run_id, command.key))
            if isinstance(command, c.StartEffect)
            else None
        )
        before = effect.first_request if effect else None
        outcome = super().decide(db, working_set, command)
        if effect is not None and before is not None:
            effect.first_request = before
        return outcome


class EndsOverDoubt(DictStore):
    def decide(self, db: Database, working_set: WorkingSet, command: c.Command) -> c.Outcome:
        if isinstance(command, c.EndAttempt):
            for effect in working_set.unsettled(command.fence.run_id):
                effect.policy = Policy.RESEND
        return super().decide(db, working_set, command)


class SettlesUnderTheOwner(DictStore):
    def decide(self, db: Database, working_set: WorkingSet, command: c.Command) -> c.Outcome:
        if isinstance(command, c.SettleEffect) and command.run_id in working_set.runs:
            owner = working_set.runs[command.run_id].owner
            command = replace(command, dead_owners=frozenset({owner} if owner else ()))
        return super().decide(db, working_set, command)


class ForgetsKeys(DictStore):
    def decide(self, db: Database, working_set: WorkingSet, command: c.Command) -> c.Outcome:
        if isinstance(command, c.CreateRuns):
            command = replace(command, idempotency_key=None)
        return super().decide(db, working_set, command)


class ForgetsDeadLetters(DictStore):
    def decide(self, db: Database, working_set: WorkingSet, command: c.Command) -> c.Outcome:
        if isinstance(command, c.EndAttempt):
            command = replace(command, on_dead=None)
        return super().decide(db, working_set, command)


class PurgesDoubt(DictStore):
    def doubts(self, run: StoredRun) -> bool:
        return False


class AppliesOneByOne(DictStore):
    async def apply(self, commands: Sequence[c.Command]) -> list[c.Outcome]:
        outcomes = []
        for command in commands:
            outcomes += await super().apply([command])
        return outcomes


class IgnoresLimits(DictStore):
    def fits(self, *args: Any) -> bool:
        return True


class ClaimsEarly(DictStore):
    def decide(self, db: Database, working_set: WorkingSet, command: c.Command) -> c.Outcome:
        if isinstance(command, c.Claim):
            working_set.now += 1e9
        return super().decide(db, working_set, command)


class StopsAtStrangers(DictStore):
    """Looks at a page of due runs, of whatever task, and only then at which of them it may take."""

    def candidates(self, db: Database, now: float, command: c.Claim) -> list[str]:
        rows = sorted((run.row for run in db.runs.values()), key=lambda row: row.due_at)
        page = {row.id for row in [row for row in rows if row.state is RunState.PENDING][: command.limit]}
        return [run_id for run_id in super().candidates(db, now, command) if run_id in page]
