"""What may happen to an effect: a request begins, its outcome comes back, or doubt is settled.

The invariants: one completed record a key; nothing is started without a live fence and sight of
the newest row; an outcome that comes too late for its attempt is evidence and settles the effect
only where nobody else is executing it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from effectlog.model import AttemptOutcome, EffectState, RunState
from effectlog.store import commands as c
from effectlog.store.rows import EffectRow
from effectlog.store.rules.evidence import (
    add_evidence,
    credit,
    executing_now,
    keep_late_value,
    late_outcome_of,
    returned,
    settle_by_late_outcome,
    succeed,
)
from effectlog.store.rules.runs import resume_if_decided

if TYPE_CHECKING:
    from effectlog.store.rows import RunRow
    from effectlog.store.rules.working_set import WorkingSet

_GIVEN_AWAY = frozenset({AttemptOutcome.RELEASED, AttemptOutcome.CANCELLED, AttemptOutcome.HELD})


def start(working_set: WorkingSet, command: c.StartEffect) -> c.Outcome:
    """Begin a request of an effect: the record that there may be one comes before the request itself.

    Refused, so that nothing is sent:

    - ``NOT_OWNER``: the fence no longer holds; another attempt may be sending the same.
    - ``CANCELLING``: the run is to be cancelled, so it begins nothing new.
    - ``CHANGED``: the caller decided by an older row than this one, or the effect is settled for good.

    A refusal brings the newest row along, so that the caller need not read it.
    """
    run = working_set.runs.get(command.fence.run_id)
    effect = working_set.effects.get((command.fence.run_id, command.key))
    if run is None or not working_set.owns(command.fence):
        return c.Refused(c.Refusal.NOT_OWNER, run.state if run else None, _shown(effect))
    if run.cancel_requested:
        return c.Refused(c.Refusal.CANCELLING, run.state, _shown(effect))
    if (effect.version if effect else 0) != command.seen or (effect is not None and effect.settled_for_good):
        return c.Refused(c.Refusal.CHANGED, run.state, _shown(effect))
    return c.EffectStored(_begin_request(working_set, effect, command).copy())


def _shown(effect: EffectRow | None) -> EffectRow | None:
    """A row as an outcome hands it out: a copy, because a store may keep its own and go on changing it."""
    return None if effect is None else effect.copy()


def _begin_request(working_set: WorkingSet, effect: EffectRow | None, command: c.StartEffect) -> EffectRow:
    """Count the request as open and as executed by this attempt."""
    if effect is None:
        effect = EffectRow(
            run_id=command.fence.run_id,
            key=command.key,
            name=command.name,
            operation_id=command.operation_id,
            fingerprints=command.fingerprints,
            policy=command.policy,
            started_at=working_set.now,
        )
    if effect.open_requests == 0:
        # No earlier request of this operation can have done anything, so its horizon begins here.
        effect.first_request = command.clock
        effect.destination = command.destination
    effect.state = EffectState.STARTED
    effect.policy = command.policy
    effect.operation_id = command.operation_id
    effect.generation = command.generation
    effect.requests += 1
    effect.open_requests += 1
    effect.executing += (command.fence.attempt,)
    effect.attempt = command.fence.attempt
    effect.finished_at = None
    effect.error = None
    working_set.change_effect(effect)
    return effect


def finish(working_set: WorkingSet, command: c.FinishEffect) -> c.Outcome:
    """Record the outcome of a request, whoever owns the run by now; see ``note_outcome``.

    It has happened, so it isn't refused for a lost fence: it settles the effect or is kept as evidence.
    Refused as ``NOT_FOUND`` where the run or the effect is gone.
    """
    run = working_set.runs.get(command.fence.run_id)
    effect = working_set.effects.get((command.fence.run_id, command.key))
    if run is None or effect is None:
        return c.Refused(c.Refusal.NOT_FOUND)
    late = note_outcome(working_set, run, effect, command)
    return c.EffectStored(effect.copy(), late=late)


def note_outcome(working_set: WorkingSet, run: RunRow, effect: EffectRow, command: c.FinishEffect) -> bool:
    """Bring the outcome of one request into the effect's row; True if it could only be kept as evidence.

    In time it settles the effect: completed, failed for good, or failed where no other request is open. Too
    late, a value still settles an effect that nobody else is executing, and a held run goes on once nothing
    of it is in doubt. The same outcome told again changes nothing, because the answer to the first may have
    been lost.
    """
    if _told_before(effect, command):
        return False
    attempt = command.fence.attempt
    timely = run.attempt == attempt and run.attempt_outcome not in _GIVEN_AWAY
    contested = not timely and executing_now(run, effect)
    awaited = timely and effect.unsettled and effect.resolved_by is None
    effect.executing = returned(effect.executing, attempt)
    late = _record(working_set, effect, command, timely=timely, contested=contested)
    if effect.late_attempt is not None and not executing_now(run, effect):
        settle_by_late_outcome(working_set, effect)
    working_set.change_effect(effect, completed=awaited and command.outcome is c.RequestOutcome.COMPLETED)
    if run.state is RunState.HELD and not effect.unsettled:
        resume_if_decided(working_set, run)
    return late


def _told_before(effect: EffectRow, command: c.FinishEffect) -> bool:
    """Nothing new: the commit had succeeded and its answer was lost, or this attempt's request was over.

    A value, or a failure for good, counts whenever it comes: it tells of the effect, not of the request.
    """
    if command.fence.attempt in effect.executing:
        return False
    match command.outcome:
        case c.RequestOutcome.COMPLETED:
            told = (command.result, command.result_error)
            return effect.state is EffectState.COMPLETED and (effect.result, effect.result_error) == told
        case c.RequestOutcome.FINAL:
            return effect.final
        case _:
            return True


def _record(
    working_set: WorkingSet, effect: EffectRow, command: c.FinishEffect, *, timely: bool, contested: bool
) -> bool:
    """Apply one request's outcome; True if it could only be kept as evidence."""
    # A failure says nothing of a request that a later attempt has made since; and whether its own one is
    # still counted as open nobody knows, because a decision may have settled it: so it stays evidence.
    open_still = effect.unsettled and effect.attempt == command.fence.attempt
    match command.outcome:
        case c.RequestOutcome.COMPLETED:
            return _complete(working_set, effect, command, timely=timely, contested=contested)
        case c.RequestOutcome.UNKNOWN:
            if timely and effect.unsettled:
                effect.error = command.error
        case _ if not open_still:
            add_evidence(effect, f"{late_outcome_of(command.fence.attempt)}: {command.outcome}")
            return True
        case c.RequestOutcome.FINAL:
            if effect.open_requests > 1:
                add_evidence(effect, f"{effect.open_requests - 1} earlier request(s) had no outcome")
            _fail(working_set, effect, command, final=True)
        case c.RequestOutcome.NOT_APPLIED | c.RequestOutcome.NOT_MADE:
            effect.open_requests -= 1
            effect.requests -= command.outcome is c.RequestOutcome.NOT_MADE
            if effect.open_requests == 0:
                _fail(working_set, effect, command, final=False)
            elif timely:
                effect.error = command.error
    return False


def _complete(
    working_set: WorkingSet, effect: EffectRow, command: c.FinishEffect, *, timely: bool, contested: bool
) -> bool:
    """Complete the effect with the value, or keep that apart where another value or attempt has priority."""
    if effect.settled_for_good or contested:
        keep_late_value(effect, unless=command.result)
        effect.late_result = command.result
        effect.late_attempt = command.fence.attempt
        return True
    if not timely or not effect.unsettled:
        credit(effect, late_outcome_of(command.fence.attempt))
    else:
        credit(effect, None)  # The value is the function's own; a decision before was about another request.
    succeed(working_set, effect, command.result, command.result_error)
    return False


def _fail(working_set: WorkingSet, effect: EffectRow, command: c.FinishEffect, *, final: bool) -> None:
    """Make the effect failed: for good, or free for another request, with a new operation id if asked for."""
    effect.state = EffectState.FAILED
    effect.final = final
    effect.error = command.error
    effect.finished_at = working_set.now
    effect.open_requests = 0
    if command.new_operation and not final:
        effect.generation += 1


def settle(working_set: WorkingSet, command: c.SettleEffect) -> c.Outcome:
    """Decide an effect in doubt, by a person's word or a look-up: applied with a value, or not applied.

    Refused as ``NOT_FOUND``; and as ``_settle_refusal`` says. A held run goes on once nothing of it is in
    doubt.
    """
    run = working_set.runs.get(command.run_id)
    effect = working_set.effects.get((command.run_id, command.key))
    if run is None or effect is None:
        return c.Refused(c.Refusal.NOT_FOUND, run.state if run else None)
    refusal = _settle_refusal(working_set, run, effect, command)
    if refusal is not None:
        return c.Refused(refusal, run.state, effect.copy())
    credit(effect, command.by)
    if command.applied:
        succeed(working_set, effect, command.result, None)
    else:
        effect.state = EffectState.FAILED
        effect.open_requests = 0
        effect.finished_at = working_set.now
        effect.generation += command.new_operation
    add_evidence(effect, command.evidence)
    working_set.change_effect(effect)
    resume_if_decided(working_set, run)
    return c.EffectStored(effect.copy())


def _settle_refusal(
    working_set: WorkingSet, run: RunRow, effect: EffectRow, command: c.SettleEffect
) -> c.Refusal | None:
    """Why this decision can't be taken.

    - ``NOT_OWNER``: the caller decides as an attempt (by look-up), and its fence no longer holds.
    - ``CHANGED``: it decided by an older row than this one.
    - ``BEING_EXECUTED``: the owner's request is under way, and its outcome will say what a
      person could only guess.
    - ``NOT_IN_DOUBT``: there is nothing to decide, or a late outcome decides it when the attempt ends.
      Completed without a storable value is as good as in doubt: a person may supply the value.
    """
    if command.fence is not None and not working_set.owns(command.fence):
        return c.Refusal.NOT_OWNER
    if command.seen is not None and command.seen != effect.version:
        return c.Refusal.CHANGED
    if executing_now(run, effect) and not working_set.lapsed(run, command.dead_owners):
        return c.Refusal.BEING_EXECUTED
    if effect.late_attempt is not None and effect.unsettled:
        return c.Refusal.NOT_IN_DOUBT  # What a late outcome says settles it as soon as the attempt is ended.
    value_missing = effect.state is EffectState.COMPLETED and effect.result_error is not None
    if effect.unsettled or (value_missing and command.applied):
        return None
    return c.Refusal.NOT_IN_DOUBT
