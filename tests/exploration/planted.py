"""The planted faults, each with the quick scope that catches it."""

from __future__ import annotations

PLANTED = {
    "_begin_request: if effect is None: → if False:": "hold",
    "settle_by_late_outcome: if effect.late_attempt is None or effect.settled_for_good: → if False:": "hold",
    "credit: if effect.resolved_by is not None and effect.state is not EffectState.COMPLETED: → if False:": "hold",
    "claim: if run is None or run.state is not RunState.PENDING or run.due_in(working_set.now) > 0: → if False:": "hold",
    "_must_hold: if state in (RunState.SUCCEEDED, RunState.FAILED): → if False:": "hold",
    "resume_if_decided: if run.state is RunState.HELD and (not undecided(working_set, run.id)): → if False:": "hold",
    "_end_requests: if run.owner not in dead_owners: → if False:": "hold",
    "_count: if outcome in (AttemptOutcome.ERROR, AttemptOutcome.TIMED_OUT): → if False:": "look-up",
    "WorkingSet.lapsed: run.owner in dead_owners → run.owner not in dead_owners": "hold",
    "_record: effect.unsettled and effect.attempt == command.fence.attempt → effect.attempt == command.fence.attempt": "hold",
    "_may_end: command.guard is c.Guard.OWNER → command.guard is not c.Guard.OWNER": "hold",
    "WorkingSet.lapsed: if run.owner in dead_owners: → if False:": "hold",
    "start: if run is None or not working_set.owns(command.fence): → if False:": "hold",
    "_complete: if effect.settled_for_good or contested: → if False:": "hold",
    "_may_end: if command.guard is c.Guard.OWNER: → if False:": "hold",
    "renew: if run is None or not working_set.owns(fence) or run.owner != command.owner: → if False:": "hold",
    "undecided: effect.policy is not Policy.RESEND → effect.policy is Policy.RESEND": "hold",
    "create: if command.fence is not None and (not working_set.owns(command.fence)): → if False:": "hold",
    "_settle_not_applied: if proof.left > 0: → if False:": "look-up",
    "Attempt.settle_left: if effect.attempt != self.fence.attempt or any((n != self.fence.attempt for n in effect.executing)): → if False:": "look-up",
    "_close_attempt: working_set.ended.append(AttemptRow(run.id, run.attempt, run.owner or '', '', working_set.now, working_set.now, outcome, error)) → nothing": "look-up",
    "WorkingSet.owns: run is not None and run.state is RunState.RUNNING and (run.attempt == fence.attempt) and (not self.lapsed(run)) → run is not None and run.attempt == fence.attempt and (not self.lapsed(run))": "hold",
    "_complete: if not timely or not effect.unsettled: → if False:": "hold",
    "_settle_refusal: if command.seen is not None and command.seen != effect.version: → if False:": "hold",
    "_settle_refusal: if command.fence is not None and (not working_set.owns(command.fence)): → if False:": "look-up",
}
