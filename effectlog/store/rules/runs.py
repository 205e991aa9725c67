"""What may happen to a run: created, claimed, renewed, ended, cancelled, retried.

The invariants: one owner at a time, each claim with a higher fence; one terminal state, reached
once; no run ends ``succeeded`` or ``failed`` over an effect that waits for a decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from effectlog.model import AttemptOutcome, Policy, RunState
from effectlog.store import commands as c
from effectlog.store.rows import AttemptRow
from effectlog.store.rules.evidence import settle_by_late_outcome
from effectlog.store.rules.working_set import KeyRow

if TYPE_CHECKING:
    from effectlog.model import ErrorInfo
    from effectlog.store.rows import NewRun, RunRow
    from effectlog.store.rules.working_set import WorkingSet


def create(working_set: WorkingSet, command: c.CreateRuns) -> c.Outcome:
    """Store new runs, or return those that have the idempotency key already.

    A key is known by its scope and by the scopes that the task had under earlier names. What was found is
    returned with the fingerprints of its arguments: whether they differ is the caller's to say. Refused as
    ``NOT_OWNER`` where a run makes children that it no longer owns, because whoever took it over makes them
    itself.
    """
    if command.fence is not None and not working_set.owns(command.fence):
        owner = working_set.runs.get(command.fence.run_id)
        return c.Refused(c.Refusal.NOT_OWNER, owner.state if owner else None)
    if command.idempotency_key is not None:
        for scope in (command.scope, *command.older_scopes):
            existing = working_set.keys.get((scope, command.idempotency_key))
            if existing is not None:
                return c.Created(existing.run_ids, created=False, fingerprints=existing.fingerprints)
    run_ids = tuple(run.id for run in command.runs)
    _insert(working_set, command.runs, command.scope, command.idempotency_key, command.fingerprints)
    return c.Created(run_ids, created=True, fingerprints=command.fingerprints)


def _insert(
    working_set: WorkingSet, runs: tuple[NewRun, ...], scope: str, key: str | None, fingerprints: str
) -> None:
    """Make the rows of new runs and of their idempotency key, as they are due by the store's clock."""
    for run in runs:
        asked_for = run.due_at is not None or run.delay > 0
        due_at = working_set.now + run.delay if run.due_at is None else run.due_at
        since = None if asked_for else working_set.now
        # A copy: the command is applied anew if its transaction fails and is tried again.
        working_set.new_runs.append(
            replace(
                run,
                due_at=due_at,
                waits_since=since,
                created_at=working_set.now,
                scope=scope,
                idempotency_key=key,
            )
        )
    if key is not None:
        row = KeyRow(tuple(run.id for run in runs), fingerprints)
        working_set.keys[scope, key] = row
        working_set.new_keys.append(((scope, key), row))


def claim(working_set: WorkingSet, command: c.Claim, candidates: list[str]) -> list[RunRow]:
    """Assign the candidates that are still pending and due to the claim's owner; pass over the others.

    Each begins an attempt, whose number is the fence: whatever an earlier attempt still sends in is refused
    by it. The store adds payloads and history afterwards.
    """
    claimed = []
    for run_id in candidates:
        run = working_set.runs.get(run_id)
        if run is None or run.state is not RunState.PENDING or run.due_in(working_set.now) > 0:
            continue
        run.state = RunState.RUNNING
        run.attempt += 1
        run.attempt_outcome = None
        run.owner = command.owner
        run.lease_expires = working_set.lease_now + command.lease
        run.lease_clock = working_set.lease_clock
        run.releasing = False
        run.waits_since = None
        working_set.change_run(run)
        working_set.begun.append(
            AttemptRow(run.id, run.attempt, command.owner, command.worker, working_set.now)
        )
        claimed.append(run)
    return claimed


def renew(working_set: WorkingSet, command: c.Renew) -> c.Outcome:
    """Lengthen the leases of the fences that their owner still holds, counted from the store's now.

    It is never refused as a whole: a run that is no longer the caller's comes back as lost, and its attempt
    has to stop. One that somebody asked to cancel comes back as cancelling, and keeps its lease until it has
    stopped.
    """
    lost, cancelling = set(), set()
    for fence in command.fences:
        run = working_set.runs.get(fence.run_id)
        if run is None or not working_set.owns(fence) or run.owner != command.owner:
            lost.add(fence.run_id)
            continue
        run.lease_expires = working_set.lease_now + command.lease
        working_set.change_run(run)
        if run.cancel_requested:
            cancelling.add(run.id)
    return c.Renewed(frozenset(lost), frozenset(cancelling))


def mark_releasing(working_set: WorkingSet, command: c.MarkReleasing) -> c.Outcome:
    """Note that the owner is about to give the run back, so that its death meanwhile counts as no crash.

    Refused as ``NOT_OWNER`` where the fence no longer holds.
    """
    if not working_set.owns(command.fence):
        return c.Refused(c.Refusal.NOT_OWNER)
    run = working_set.runs[command.fence.run_id]
    run.releasing = True
    working_set.change_run(run)
    return c.Done()


def note_trace(working_set: WorkingSet, command: c.NoteTrace) -> c.Outcome:
    """Keep the trace context of an attempt, which links a later attempt's trace to it.

    Refused as ``NOT_OWNER`` where the fence no longer holds.
    """
    if not working_set.owns(command.fence):
        return c.Refused(c.Refusal.NOT_OWNER)
    working_set.traced.append((command.fence.run_id, command.fence.attempt, command.trace))
    return c.Done()


def end_attempt(working_set: WorkingSet, command: c.EndAttempt) -> c.Outcome:
    """End the attempt, and decide what becomes of its run: ``command.state`` is what the caller asks for.

    - Effects that a late outcome has settled are settled first, and count no longer as in doubt.
    - A run doesn't succeed or fail over an effect in doubt whose policy is not to send it again: it is held.
      Nor is it retried after an error where that could only hold it again.
    - A run that was to be held, and was decided meanwhile, goes on.
    - One that somebody asked to cancel is cancelled, unless it has succeeded.
    - One that was being given back when its owner died was released, and not a crash.
    - A run that fails for good makes its dead-letter run, once.

    Refused as ``NOT_OWNER`` where the caller is the owner and its fence no longer holds, or takes over and
    the lease has not lapsed: somebody else decides about the run then.
    """
    run = working_set.runs.get(command.fence.run_id)
    if run is None or not _may_end(working_set, run, command):
        return c.Refused(c.Refusal.NOT_OWNER, run.state if run else None)
    outcome, state = command.outcome, command.state
    if outcome is AttemptOutcome.EXPIRED and run.releasing:
        outcome, state = AttemptOutcome.RELEASED, RunState.PENDING
    _settle_by_evidence(working_set, run)
    _end_requests(working_set, run, command.dead_owners)
    _hold(working_set, run, command.holds)
    if _must_hold(working_set, run, outcome, state):
        state = RunState.HELD
        outcome = outcome if outcome is AttemptOutcome.EXPIRED else AttemptOutcome.HELD
    elif state is RunState.HELD and not undecided(working_set, run.id):
        state = RunState.PENDING  # The decision arrived while the attempt was ending.
    if run.cancel_requested and state is not RunState.SUCCEEDED:
        state = RunState.CANCELLED
    _close_attempt(working_set, run, outcome, command.error)
    _count(run, outcome)
    if command.delay > 0 or (state is RunState.PENDING and not _keeps_its_place(run, outcome)):
        run.due_at = working_set.now + command.delay
    _move(working_set, run, state, error=command.error, result=command.result)
    if state is RunState.FAILED and command.on_dead is not None:
        child = command.on_dead
        if (child.scope or "", child.idempotency_key or "") not in working_set.keys:
            _insert(working_set, (child,), child.scope or "", child.idempotency_key, "{}")
    return c.RunMoved(state)


def _may_end(working_set: WorkingSet, run: RunRow, command: c.EndAttempt) -> bool:
    """Whether the caller may end this attempt: as its owner, or over an owner that is gone."""
    if command.guard is c.Guard.OWNER:
        return working_set.owns(command.fence)
    return (
        run.state is RunState.RUNNING
        and run.attempt == command.fence.attempt
        and working_set.lapsed(run, command.dead_owners)
    )


def _settle_by_evidence(working_set: WorkingSet, run: RunRow) -> None:
    """Settle what outcomes that came too late say, now that no attempt executes these effects any more."""
    for effect in list(working_set.unsettled(run.id)):
        if effect.late_attempt is not None:
            settle_by_late_outcome(working_set, effect)
            working_set.change_effect(effect)


def _end_requests(working_set: WorkingSet, run: RunRow, dead_owners: frozenset[str]) -> None:
    """A dead owner executes nothing any more; one whose lease merely lapsed may still be calling."""
    if run.owner not in dead_owners:
        return
    for effect in list(working_set.unsettled(run.id)):
        if run.attempt in effect.executing:
            effect.executing = tuple(number for number in effect.executing if number != run.attempt)
            working_set.change_effect(effect)


def _hold(working_set: WorkingSet, run: RunRow, keys: tuple[str, ...]) -> None:
    """Make these effects wait for a decision, also where their declared policy is to send again."""
    for effect in list(working_set.unsettled(run.id)):
        if effect.key in keys and effect.policy is not Policy.HOLD:
            effect.policy = Policy.HOLD
            working_set.change_effect(effect)


def _must_hold(working_set: WorkingSet, run: RunRow, outcome: AttemptOutcome, state: RunState) -> bool:
    """Whether a doubt keeps the run from ending, or from a retry that could only hold it again."""
    if state in (RunState.SUCCEEDED, RunState.FAILED):
        return undecided(working_set, run.id)
    raised = state is RunState.PENDING and outcome in (AttemptOutcome.ERROR, AttemptOutcome.TIMED_OUT)
    return raised and any(effect.policy is Policy.HOLD for effect in working_set.unsettled(run.id))


def undecided(working_set: WorkingSet, run_id: str) -> bool:
    """An effect of the run is in doubt, and its policy is not simply to send it again."""
    return any(effect.policy is not Policy.RESEND for effect in working_set.unsettled(run_id))


def resume_if_decided(working_set: WorkingSet, run: RunRow) -> None:
    """Let a held run go on once nothing of it waits for a decision any more."""
    if run.state is RunState.HELD and not undecided(working_set, run.id):
        run.due_at = working_set.now
        run.crashes = 0  # Decided, it goes on with at least one attempt.
        _move(working_set, run, RunState.PENDING)


def _close_attempt(
    working_set: WorkingSet, run: RunRow, outcome: AttemptOutcome, error: ErrorInfo | None
) -> None:
    """Record how the attempt ended, and take the run from its owner."""
    working_set.ended.append(
        AttemptRow(run.id, run.attempt, run.owner or "", "", working_set.now, working_set.now, outcome, error)
    )
    run.attempt_outcome = outcome
    run.owner = None
    run.lease_expires = 0.0
    run.lease_clock = ""
    run.releasing = False


def _count(run: RunRow, outcome: AttemptOutcome) -> None:
    """Count an error or a crash; a release, a hold and a cancel count as neither."""
    if outcome in (AttemptOutcome.ERROR, AttemptOutcome.TIMED_OUT):
        run.errors += 1
    elif outcome is AttemptOutcome.EXPIRED:
        run.crashes += 1


def _keeps_its_place(run: RunRow, outcome: AttemptOutcome) -> bool:
    """Whether a run goes on before what waits.

    What failed goes behind it, or it could keep others from ever starting.

    So does a suspect. One that has only lost its process may have an effect in doubt, which should not wait
    for a whole queue.
    """
    crashed_before = run.crashes >= c.SUSPECT_CRASHES
    return outcome is AttemptOutcome.RELEASED or (outcome is AttemptOutcome.EXPIRED and not crashed_before)


def _move(
    working_set: WorkingSet,
    run: RunRow,
    state: RunState,
    *,
    error: ErrorInfo | None = None,
    result: bytes | None = None,
) -> None:
    """Bring a run into a state, with what belongs to it alone: error, result, times."""
    run.state = state
    run.error = error if state is not RunState.SUCCEEDED else None
    run.result = result if state is RunState.SUCCEEDED else None
    run.finished_at = working_set.now if state.ended else None
    run.waits_since = working_set.now if state is RunState.PENDING else None
    if state.ended:
        run.cancel_requested = False
    working_set.change_run(run)


def cancel(working_set: WorkingSet, command: c.CancelRun) -> c.Outcome:
    """Cancel a run: at once where nobody executes it, else by asking its owner, who stops the attempt.

    ``force`` doesn't wait for the owner: its attempt is closed, and whatever it sends in later is evidence. A
    run that has ended stays as it is (``changed`` is false). Refused as ``NOT_FOUND`` only.
    """
    run = working_set.runs.get(command.run_id)
    if run is None:
        return c.Refused(c.Refusal.NOT_FOUND)
    if run.state.ended:
        return c.RunMoved(run.state, changed=False)
    if run.state is RunState.RUNNING:
        lapsed = working_set.lapsed(run, command.dead_owners)
        if not lapsed and not command.force:
            run.cancel_requested = True
            working_set.change_run(run)
            return c.RunMoved(RunState.RUNNING)
        _settle_by_evidence(working_set, run)
        _end_requests(working_set, run, command.dead_owners)
        _close_attempt(working_set, run, AttemptOutcome.EXPIRED if lapsed else AttemptOutcome.CANCELLED, None)
    _move(working_set, run, RunState.CANCELLED, error=run.error)
    return c.RunMoved(RunState.CANCELLED)


def retry(working_set: WorkingSet, command: c.RetryRun) -> c.Outcome:
    """Let a run begin anew that has failed or was cancelled, with its counts of errors and crashes at 0.

    Its journal stays: what is recorded as completed isn't sent again. A running one is taken from an owner
    whose lease lapsed, and with ``force`` from any. Refused as ``NOT_FOUND``; as ``OWNER_ALIVE`` where an
    owner still executes it; as ``WRONG_STATE`` where it succeeded, is held, or is pending anyway.
    """
    run = working_set.runs.get(command.run_id)
    if run is None:
        return c.Refused(c.Refusal.NOT_FOUND)
    if run.state is RunState.RUNNING:
        lapsed = working_set.lapsed(run, command.dead_owners)
        if not lapsed and not command.force:
            return c.Refused(c.Refusal.OWNER_ALIVE, run.state)
        _settle_by_evidence(working_set, run)
        _end_requests(working_set, run, command.dead_owners)
        _close_attempt(working_set, run, AttemptOutcome.EXPIRED if lapsed else AttemptOutcome.CANCELLED, None)
    elif run.state not in (RunState.FAILED, RunState.CANCELLED):
        return c.Refused(c.Refusal.WRONG_STATE, run.state)
    run.errors = run.crashes = 0
    run.cancel_requested = False
    run.due_at = working_set.now
    _move(working_set, run, RunState.PENDING)
    return c.RunMoved(RunState.PENDING)
