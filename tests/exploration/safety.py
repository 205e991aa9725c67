"""What no command may do to the rows, whoever sends it and whenever it lands: checked once for each pair of rows and command."""

from __future__ import annotations

from typing import Any

from exploration.production import (
    AttemptOutcome,
    Claim,
    Due,
    EffectState,
    Lapse,
    Policy,
    Purged,
    Rows,
    RunState,
    c,
)

_GIVEN_AWAY = (AttemptOutcome.RELEASED, AttemptOutcome.CANCELLED, AttemptOutcome.HELD)


def check_edge(before: Rows, command: Any, outcome: Any, after: Rows) -> str:
    """The promise that this change breaks; empty without one."""
    if isinstance(outcome, tuple) and outcome[0] == "refused" and after != before:
        return "a refused command changed something"
    if isinstance(command, Lapse | Due | Purged):
        return ""
    if before.run is None:
        return "a purged run came back" if after.run is not None else ""
    if after == before:
        return ""
    for check in (_run_changes, _effect_changes, _rows_agree, _counts_agree):
        if broken := check(before, command, outcome, after):
            return broken
    return ""


def _run_changes(before: Rows, command: Any, outcome: Any, after: Rows) -> str:
    was, now = before.row(), after.row()
    if was.state.ended and now.state is not was.state and not isinstance(command, c.RetryRun):
        return "a terminal state was left by something else than retry"
    if was.state.ended and after.result != before.result and not isinstance(command, c.RetryRun):
        return "the result of an ended run changed"
    if now.attempt < was.attempt or now.attempt > was.attempt + 1:
        return "a fence was left out or given out twice"
    if now.attempt != was.attempt and not isinstance(command, Claim):
        return "something else than a claim made an attempt"
    if isinstance(command, Claim) and was.state is not RunState.PENDING:
        return "a run that was not pending was claimed"
    if isinstance(command, c.EndAttempt) and command.fence.attempt != was.attempt:
        return "a stale fence ended an attempt"
    if (
        was.cancel_requested
        and isinstance(command, c.EndAttempt)
        and now.state in (RunState.PENDING, RunState.HELD)
    ):
        return "a run that was to be cancelled goes on"
    if was.cancel_requested and now.state is RunState.RUNNING and not now.cancel_requested:
        return "a wish to cancel was forgotten"
    return ""


def _rows_agree(before: Rows, command: Any, outcome: Any, after: Rows) -> str:
    run, effect = after.row(), after.effect()
    going_on = [number for number, _, ended in after.attempts if ended is None]
    if [number for number, _, _ in after.attempts] != list(range(1, run.attempt + 1)):
        return "an attempt is missing"
    if going_on != ([run.attempt] if run.state is RunState.RUNNING else []):
        return "the attempts and the run disagree"
    if (run.state is RunState.RUNNING) != (run.owner is not None):
        return "the owner and the state disagree"
    if run.state.ended != (run.finished_at is not None):
        return "the end and the state disagree"
    undecided = effect is not None and effect.unsettled and effect.policy is not Policy.RESEND
    entered = run.state is not before.row().state
    if entered and run.state in (RunState.SUCCEEDED, RunState.FAILED) and undecided:
        return f"a run ended {run.state.value} over an undecided doubt"
    if run.state is RunState.HELD and not undecided:
        return "a run is held, and nobody can decide anything"
    if effect is not None and (effect.open_requests > 0) != effect.unsettled:
        return "the open requests and the state of the effect disagree"
    if effect is not None and not 0 <= effect.open_requests <= effect.requests:
        return "the requests are counted wrongly"
    if (
        (
            entered
            and run.state is RunState.SUCCEEDED
            and effect is not None
            and effect.state is EffectState.COMPLETED
        )
        and after.result not in (effect.result, b"null")
        and not _without_the_effect(command)
    ):
        return "the run's result is not what a replay returns"
    if (
        entered
        and run.state is RunState.FAILED
        and isinstance(command, c.EndAttempt)
        and command.on_dead is not None
    ) and (command.on_dead.scope, command.on_dead.idempotency_key) not in after.children:
        return "a dead letter without its on_dead run"
    return ""


def _without_the_effect(command: Any) -> bool:
    return not isinstance(command, c.EndAttempt)


def _effect_changes(before: Rows, command: Any, outcome: Any, after: Rows) -> str:
    was, now = before.effect(), after.effect()
    if was is None or now is None:
        return "an effect was lost" if was is not None else ""
    if now != was and now.version <= was.version:
        return "an effect changed and its version does not tell"
    lines, lines_now = (set((row.evidence or "").splitlines()) for row in (was, now))
    if not lines <= lines_now:
        return "evidence was lost"
    if (
        was.late_attempt is not None
        and was.late_result != now.late_result
        and not _kept(was.late_result, now, lines_now)
    ):
        return "the value of a late outcome was lost"
    if was.state is EffectState.COMPLETED:
        given = isinstance(command, c.SettleEffect) and was.result_error is not None
        if (now.state, now.result) != (was.state, was.result) and not given:
            return "a completed record changed"
        if now.requests != was.requests and not _never_made(command):
            return "a request was counted after a completed record"
        if now.resolved_by != was.resolved_by and not given:
            return "who decided was overwritten"
    if was.final and now.state is not was.state and now.state is not EffectState.COMPLETED:
        return "a failure for good was taken back"
    decided_anew = was.resolved_by is not None and now.resolved_by != was.resolved_by
    if decided_anew and not any(was.resolved_by in line for line in lines_now):
        return "what was decided was overwritten without a trace"
    if isinstance(command, c.FinishEffect) and command.outcome is c.RequestOutcome.COMPLETED:
        if not _kept(command.result, now, lines_now):
            return "a reported value was dropped"
        run = before.row()
        late = run.attempt != command.fence.attempt or run.attempt_outcome in _GIVEN_AWAY
        became = was.state is not EffectState.COMPLETED and now.state is EffectState.COMPLETED
        if became and late and not (now.resolved_by or "").startswith("late outcome"):
            return "a late outcome was taken as timely"
    if now.requests < was.requests and not _never_made(command):
        return "a request is not counted any more"
    return ""


def _kept(value: bytes | None, row: Any, lines: set[str]) -> bool:
    return value in (row.result, row.late_result) or any((value or b"").decode() in line for line in lines)


def _never_made(command: Any) -> bool:
    return isinstance(command, c.FinishEffect) and command.outcome is c.RequestOutcome.NOT_MADE


def _counts_agree(before: Rows, command: Any, outcome: Any, after: Rows) -> str:
    """What is kept twice must be the same in both places, and what is counted must be what happened."""
    was, now = before.row(), after.row()
    of_attempts = after.attempts[-1][2] if after.attempts else None
    if now.attempt_outcome != of_attempts:
        return "the run does not know how its attempt ended, so late outcomes are taken as timely"
    if now.state is not RunState.RUNNING and (now.lease_expires, now.lease_clock, now.releasing) != (
        0.0,
        "",
        False,
    ):
        return "a lease is left where nobody executes"
    if now.owner is not None and now.owner != after.attempts[-1][1]:
        return "the attempt names another owner than the run"
    if any(owner != after.attempts[number - 1][1] for number, owner, _ in before.attempts):
        return "an attempt's owner was forgotten"
    ended = was.state is RunState.RUNNING and now.state is not RunState.RUNNING
    if isinstance(command, c.RetryRun):
        errors, crashes = 0, 0
    else:
        errors = was.errors + (ended and of_attempts in (AttemptOutcome.ERROR, AttemptOutcome.TIMED_OUT))
        crashes = was.crashes + (
            ended and isinstance(command, c.EndAttempt) and of_attempts is AttemptOutcome.EXPIRED
        )
        if was.state is RunState.HELD and now.state is RunState.PENDING:
            crashes = 0
    if (now.errors, now.crashes) != (errors, crashes):
        return "errors or crashes are counted wrongly"
    effect = after.effect()
    dead = getattr(command, "dead_owners", frozenset())
    if (
        ended
        and was.owner in dead
        and effect is not None
        and effect.unsettled
        and was.attempt in effect.executing
    ):
        return "a dead owner is said to execute a request"
    known = before.effect()
    still = known is not None and known.unsettled and effect is not None and effect.unsettled
    if ended and was.owner not in dead and still and known.executing != effect.executing:
        return "a request that may be under way is not said to be executed any more"
    return ""
