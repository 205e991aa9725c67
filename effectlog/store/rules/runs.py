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
    from effectlog.store.rules.working_set import Pages


def create(pages: Pages, command: c.CreateRuns) -> c.Outcome:
    if command.fence is not None and not pages.owns(command.fence):
        owner = pages.runs.get(command.fence.run_id)
        return c.Refused(c.Refusal.NOT_OWNER, owner.state if owner else None)
    if command.idempotency_key is not None:
        for scope in (command.scope, *command.older_scopes):
            existing = pages.keys.get((scope, command.idempotency_key))
            if existing is not None:
                return c.Created(existing.run_ids, created=False, fingerprints=existing.fingerprints)
    run_ids = tuple(run.id for run in command.runs)
    _insert(pages, command.runs, command.scope, command.idempotency_key, command.fingerprints)
    return c.Created(run_ids, created=True, fingerprints=command.fingerprints)


def _insert(pages: Pages, runs: tuple[NewRun, ...], scope: str, key: str | None, fingerprints: str) -> None:
    for run in runs:
        asked_for = run.due_at is not None or run.delay > 0
        due_at = pages.now + run.delay if run.due_at is None else run.due_at
        since = None if asked_for else pages.now
        # A copy: the command is applied anew if its transaction fails and is tried again.
        pages.new_runs.append(
            replace(run, due_at=due_at, waits_since=since, scope=scope, idempotency_key=key)
        )
    if key is not None:
        row = KeyRow(tuple(run.id for run in runs), fingerprints)
        pages.keys[scope, key] = row
        pages.new_keys.append(((scope, key), row))


def claim(pages: Pages, command: c.Claim, candidates: list[str]) -> list[RunRow]:
    """Take the candidates that are still pending and due; the store adds their payloads afterwards."""
    claimed = []
    for run_id in candidates:
        run = pages.runs.get(run_id)
        if run is None or run.state is not RunState.PENDING or run.due_in(pages.now) > 0:
            continue
        run.state = RunState.RUNNING
        run.attempt += 1
        run.attempt_outcome = None
        run.owner = command.owner
        run.lease_expires = pages.lease_now + command.lease
        run.lease_clock = pages.lease_clock
        run.releasing = False
        run.waits_since = None
        pages.change_run(run)
        pages.begun.append(AttemptRow(run.id, run.attempt, command.owner, command.worker, pages.now))
        claimed.append(run)
    return claimed


def renew(pages: Pages, command: c.Renew) -> c.Outcome:
    lost, cancelling = set(), set()
    for fence in command.fences:
        run = pages.runs.get(fence.run_id)
        if run is None or not pages.owns(fence) or run.owner != command.owner:
            lost.add(fence.run_id)
            continue
        run.lease_expires = pages.lease_now + command.lease
        pages.change_run(run)
        if run.cancel_requested:
            cancelling.add(run.id)
    return c.Renewed(frozenset(lost), frozenset(cancelling))


def mark_releasing(pages: Pages, command: c.MarkReleasing) -> c.Outcome:
    if not pages.owns(command.fence):
        return c.Refused(c.Refusal.NOT_OWNER)
    run = pages.runs[command.fence.run_id]
    run.releasing = True
    pages.change_run(run)
    return c.Done()


def note_trace(pages: Pages, command: c.NoteTrace) -> c.Outcome:
    if not pages.owns(command.fence):
        return c.Refused(c.Refusal.NOT_OWNER)
    pages.traced.append((command.fence.run_id, command.fence.attempt, command.trace))
    return c.Done()


def end_attempt(pages: Pages, command: c.EndAttempt) -> c.Outcome:
    run = pages.runs.get(command.fence.run_id)
    if run is None or not _may_end(pages, run, command):
        return c.Refused(c.Refusal.NOT_OWNER, run.state if run else None)
    outcome, state = command.outcome, command.state
    if outcome is AttemptOutcome.EXPIRED and run.releasing:
        outcome, state = AttemptOutcome.RELEASED, RunState.PENDING
    _settle_by_evidence(pages, run)
    _end_requests(pages, run, command.dead_owners)
    _hold(pages, run, command.holds)
    if _must_hold(pages, run, outcome, state):
        state = RunState.HELD
        outcome = outcome if outcome is AttemptOutcome.EXPIRED else AttemptOutcome.HELD
    elif state is RunState.HELD and not undecided(pages, run.id):
        state = RunState.PENDING  # The decision arrived while the attempt was ending.
    if run.cancel_requested and state is not RunState.SUCCEEDED:
        state = RunState.CANCELLED
    _close_attempt(pages, run, outcome, command.error)
    _count(run, outcome)
    if command.delay > 0 or (state is RunState.PENDING and not _keeps_its_place(run, outcome)):
        run.due_at = pages.now + command.delay
    _move(pages, run, state, error=command.error, result=command.result)
    if state is RunState.FAILED and command.on_dead is not None:
        child = command.on_dead
        if (child.scope or "", child.idempotency_key or "") not in pages.keys:
            _insert(pages, (child,), child.scope or "", child.idempotency_key, "{}")
    return c.RunMoved(state)


def _may_end(pages: Pages, run: RunRow, command: c.EndAttempt) -> bool:
    if command.guard is c.Guard.OWNER:
        return pages.owns(command.fence)
    return (
        run.state is RunState.RUNNING
        and run.attempt == command.fence.attempt
        and pages.lapsed(run, command.dead_owners)
    )


def _settle_by_evidence(pages: Pages, run: RunRow) -> None:
    for effect in list(pages.unsettled(run.id)):
        if effect.late_attempt is not None:
            settle_by_late_outcome(pages, effect)
            pages.change_effect(effect)


def _end_requests(pages: Pages, run: RunRow, dead_owners: frozenset[str]) -> None:
    """A dead owner executes nothing any more; one whose lease merely lapsed may still be calling."""
    if run.owner not in dead_owners:
        return
    for effect in list(pages.unsettled(run.id)):
        if run.attempt in effect.executing:
            effect.executing = tuple(number for number in effect.executing if number != run.attempt)
            pages.change_effect(effect)


def _hold(pages: Pages, run: RunRow, keys: tuple[str, ...]) -> None:
    """Make these effects wait for a decision, also where their declared policy is to send again."""
    for effect in list(pages.unsettled(run.id)):
        if effect.key in keys and effect.policy is not Policy.HOLD:
            effect.policy = Policy.HOLD
            pages.change_effect(effect)


def _must_hold(pages: Pages, run: RunRow, outcome: AttemptOutcome, state: RunState) -> bool:
    """Whether a doubt keeps the run from ending, or from a retry that could only hold it again."""
    if state in (RunState.SUCCEEDED, RunState.FAILED):
        return undecided(pages, run.id)
    raised = state is RunState.PENDING and outcome in (AttemptOutcome.ERROR, AttemptOutcome.TIMED_OUT)
    return raised and any(effect.policy is Policy.HOLD for effect in pages.unsettled(run.id))


def undecided(pages: Pages, run_id: str) -> bool:
    """An effect of the run is in doubt, and its policy is not simply to send it again."""
    return any(effect.policy is not Policy.RESEND for effect in pages.unsettled(run_id))


def resume_if_decided(pages: Pages, run: RunRow) -> None:
    """Let a held run go on once nothing of it waits for a decision any more."""
    if run.state is RunState.HELD and not undecided(pages, run.id):
        run.due_at = pages.now
        run.crashes = 0  # Decided, it goes on with at least one attempt.
        _move(pages, run, RunState.PENDING)


def _close_attempt(pages: Pages, run: RunRow, outcome: AttemptOutcome, error: ErrorInfo | None) -> None:
    pages.ended.append(
        AttemptRow(run.id, run.attempt, run.owner or "", "", pages.now, pages.now, outcome, error)
    )
    run.attempt_outcome = outcome
    run.owner = None
    run.lease_expires = 0.0
    run.lease_clock = ""
    run.releasing = False


def _count(run: RunRow, outcome: AttemptOutcome) -> None:
    if outcome in (AttemptOutcome.ERROR, AttemptOutcome.TIMED_OUT):
        run.errors += 1
    elif outcome is AttemptOutcome.EXPIRED:
        run.crashes += 1


def _keeps_its_place(run: RunRow, outcome: AttemptOutcome) -> bool:
    """Whether a run goes on before what waits. What failed goes behind it, or it could keep others from ever starting.

    So does a suspect. One that has only lost its process may have an effect in doubt, which should not wait for
    a whole queue.
    """
    crashed_before = run.crashes >= c.SUSPECT_CRASHES
    return outcome is AttemptOutcome.RELEASED or (outcome is AttemptOutcome.EXPIRED and not crashed_before)


def _move(
    pages: Pages,
    run: RunRow,
    state: RunState,
    *,
    error: ErrorInfo | None = None,
    result: bytes | None = None,
) -> None:
    run.state = state
    run.error = error if state is not RunState.SUCCEEDED else None
    run.result = result if state is RunState.SUCCEEDED else None
    run.finished_at = pages.now if state.ended else None
    run.waits_since = pages.now if state is RunState.PENDING else None
    if state.ended:
        run.cancel_requested = False
    pages.change_run(run)


def cancel(pages: Pages, command: c.CancelRun) -> c.Outcome:
    run = pages.runs.get(command.run_id)
    if run is None:
        return c.Refused(c.Refusal.NOT_FOUND)
    if run.state.ended:
        return c.RunMoved(run.state, changed=False)
    if run.state is RunState.RUNNING:
        lapsed = pages.lapsed(run, command.dead_owners)
        if not lapsed and not command.force:
            run.cancel_requested = True
            pages.change_run(run)
            return c.RunMoved(RunState.RUNNING)
        _settle_by_evidence(pages, run)
        _end_requests(pages, run, command.dead_owners)
        _close_attempt(pages, run, AttemptOutcome.EXPIRED if lapsed else AttemptOutcome.CANCELLED, None)
    _move(pages, run, RunState.CANCELLED, error=run.error)
    return c.RunMoved(RunState.CANCELLED)


def retry(pages: Pages, command: c.RetryRun) -> c.Outcome:
    run = pages.runs.get(command.run_id)
    if run is None:
        return c.Refused(c.Refusal.NOT_FOUND)
    if run.state is RunState.RUNNING:
        lapsed = pages.lapsed(run, command.dead_owners)
        if not lapsed and not command.force:
            return c.Refused(c.Refusal.OWNER_ALIVE, run.state)
        _settle_by_evidence(pages, run)
        _end_requests(pages, run, command.dead_owners)
        _close_attempt(pages, run, AttemptOutcome.EXPIRED if lapsed else AttemptOutcome.CANCELLED, None)
    elif run.state not in (RunState.FAILED, RunState.CANCELLED):
        return c.Refused(c.Refusal.WRONG_STATE, run.state)
    run.errors = run.crashes = 0
    run.cancel_requested = False
    run.due_at = pages.now
    _move(pages, run, RunState.PENDING)
    return c.RunMoved(RunState.PENDING)
