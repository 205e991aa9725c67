"""How an attempt ended, as the command that records it: the engine's decision, from its own state.

What left the body does not decide alone, because user code may have swallowed or wrapped it.
"""

from __future__ import annotations

import inspect
import logging
import time
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from effectlog.attempt.stop_reason import StopReason
from effectlog.clients.retry_after import pause_asked_by
from effectlog.error_info import MESSAGE_LIMIT, describe, storable
from effectlog.errors import (
    ConfigurationError,
    DecodingError,
    EffectFailed,
    EffectLogControl,
    EncodingError,
    StoreError,
)
from effectlog.keys import new_run_id
from effectlog.model import DAMAGED, UNREADABLE_HERE, WORKER_LOST, AttemptOutcome, ErrorInfo, RunState
from effectlog.store import commands as c
from effectlog.store.rows import NewRun
from effectlog.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from effectlog.attempt.attempt import Attempt
    from effectlog.codec import Codec
    from effectlog.decorators.spec import TaskSpec
    from effectlog.store.rows import StoredRun


logger = logging.getLogger("effectlog")

MAX_DEPTH = 100
"""How long a chain of runs that make runs may grow."""
GIVE_BACK_DELAY = 5.0
"""Seconds before a run that this process could not go on with is offered again."""


class BodyResult(Struct, frozen=True):
    """What left the body: a value, or an exception. ``disturbed``: the body was interrupted or refused."""

    value: Any = None
    error: BaseException | None = None
    disturbed: bool = False


def end_of(attempt: Attempt, body: BodyResult) -> c.EndAttempt | None:
    """The command that ends this attempt; None where it has nothing to say any more."""
    stop_reason = attempt.stop_reason
    if stop_reason is StopReason.LOST:
        return None
    if attempt.holds:
        holds = dict(attempt.holds)
        return _end(
            attempt, AttemptOutcome.HELD, RunState.HELD, holds=tuple(holds), error=_hold_reasons(holds)
        )
    undisturbed = body.error is None and not body.disturbed
    if stop_reason in (None, StopReason.OVER) or undisturbed:
        return _end_by_body(attempt, body)
    reason = ErrorInfo("effectlog.AttemptOver", storable(attempt.reason))
    if stop_reason is StopReason.CANCELLED:
        return _end(attempt, AttemptOutcome.CANCELLED, RunState.CANCELLED)
    if stop_reason in (StopReason.RELEASED, StopReason.UNABLE):
        if stop_reason is StopReason.UNABLE and attempt.unreadable_here:
            reason = ErrorInfo(UNREADABLE_HERE, reason.message)
        delay = 0.0 if attempt.reason == str(StopReason.RELEASED) else max(GIVE_BACK_DELAY, attempt.back_in)
        delay = max(delay, attempt.not_before - time.monotonic())
        error = reason if delay else None
        return _end(attempt, AttemptOutcome.RELEASED, RunState.PENDING, error=error, delay=delay)
    message = f"attempt {attempt.fence.attempt} took longer than timeout={attempt.task.timeout:g} s"
    if attempt.paused_for:
        message += f", apart from {attempt.paused_for:.1f} s for which its process stood still"
    timeout = ErrorInfo("TimeoutError", message)
    return _after_error(attempt, timeout, AttemptOutcome.TIMED_OUT, give_up=False)


def _end_by_body(attempt: Attempt, body: BodyResult) -> c.EndAttempt:
    error = body.error or _forgotten_effects(attempt)
    if error is None:
        return _success(attempt, body.value)
    if all(isinstance(leaf, StoreError) and attempt.engine.owns_error(leaf) for leaf in _leaves(error)):
        # The store's trouble is not the task's: the run goes back and no attempt is used.
        return _end(
            attempt, AttemptOutcome.RELEASED, RunState.PENDING, error=describe(error), delay=GIVE_BACK_DELAY
        )
    pointless: tuple[type[BaseException], ...] = (EffectFailed, *attempt.task.retry.give_up_on)
    give_up = any(isinstance(leaf, pointless) or _is_unstorable(leaf) for leaf in (error, *_leaves(error)))
    return _after_error(
        attempt, describe(error), AttemptOutcome.ERROR, give_up=give_up, not_within=pause_asked_by(error)
    )


def _is_unstorable(error: BaseException) -> bool:
    """An effect has happened and its result can't be kept: another attempt would fail the same."""
    return isinstance(error, EncodingError) and error.effect_key is not None


def _forgotten_effects(attempt: Attempt) -> ConfigurationError | None:
    names = sorted(
        {
            name
            for name, coroutine in list(attempt.unawaited.values())
            # One that was closed, or cancelled before its first step, was not forgotten.
            if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
        }
    )
    if not names:
        return None
    return ConfigurationError(
        f"task {attempt.task.name} called effect {', '.join(names)} without awaiting it, so it never ran; "
        f"write 'await {names[0]}(...)'"
    )


def _success(attempt: Attempt, value: Any) -> c.EndAttempt:
    try:
        what = f"the result of task {attempt.task.name} takes"
        data = attempt.runtime.stored(value, what, path="result")
    except EncodingError as error:
        # Running again would replay every effect and fail here again.
        return _after_error(attempt, describe(error), AttemptOutcome.ERROR, give_up=True)
    return _end(attempt, AttemptOutcome.SUCCEEDED, RunState.SUCCEEDED, result=data)


def _after_error(
    attempt: Attempt, error: ErrorInfo, outcome: AttemptOutcome, *, give_up: bool, not_within: float = 0.0
) -> c.EndAttempt:
    errors = attempt.run.row.errors + 1
    retry = attempt.task.retry
    if give_up or retry.ends_after_error(errors):
        return _end(
            attempt,
            outcome,
            RunState.FAILED,
            error=error,
            on_dead=dead_letter_run(attempt.task, attempt.run, error, attempt.runtime.codec),
        )
    delay = retry.delay_after(errors, not_within)
    return _end(attempt, outcome, RunState.PENDING, error=error, delay=delay)


def _hold_reasons(holds: dict[str, str]) -> ErrorInfo:
    reasons = "; ".join(f"effect {key!r}: {reason}" for key, reason in holds.items())
    return ErrorInfo("effectlog.EffectHeld", storable(reasons[:MESSAGE_LIMIT]))


def _end(attempt: Attempt, outcome: AttemptOutcome, state: RunState, **more: Any) -> c.EndAttempt:
    return c.EndAttempt(attempt.fence, outcome, state, **more)


def unreadable_arguments(attempt: Attempt, error: DecodingError | TypeError) -> c.EndAttempt:
    """End a run whose stored arguments this process can't use: a dead letter until somebody retries it."""
    return _after_error(attempt, describe(error), AttemptOutcome.ERROR, give_up=True)


def damaged(attempt: Attempt, damage: str) -> c.EndAttempt:
    """End a run of which something can't be read: without it, the run could send again what is recorded."""
    error = ErrorInfo(DAMAGED, storable(damage))
    return _after_error(attempt, error, AttemptOutcome.ERROR, give_up=True)


def broken(attempt: Attempt, error: Exception) -> c.EndAttempt:
    """End an attempt that could not be executed or decided as it should; it counts as an error."""
    return _after_error(attempt, describe(error), AttemptOutcome.ERROR, give_up=False)


def crashed_too_often(attempt: Attempt) -> c.EndAttempt:
    """End a run that was taken over by a worker which did not know the task, and so not its limit."""
    crashes = attempt.run.row.crashes
    error = ErrorInfo(WORKER_LOST, f"worker lost: {crashes} attempt(s) did not end by themselves")
    return _after_error(attempt, error, AttemptOutcome.ERROR, give_up=True)


def dead_letter_run(task: TaskSpec, run: StoredRun, error: ErrorInfo, codec: Codec) -> NewRun | None:
    """The run of the task's ``on_dead``, to be created in the transaction that makes the dead letter."""
    if task.on_dead is None:
        return None
    if run.depth >= MAX_DEPTH:
        logger.error(
            "effectlog: run %s ends a chain of %s runs, so no run of %s is made",
            run.row.id,
            MAX_DEPTH,
            task.on_dead,
            extra={"run_id": run.row.id, "task": run.row.task, "attempt": run.row.attempt},
        )
        return None
    text = f"{error.type}: {error.message}"
    return NewRun(
        id=new_run_id(),
        task=task.on_dead,
        args=codec.encode({"run_id": run.row.id, "error": text}),
        scope=f"task:{task.on_dead}",
        idempotency_key=f"dead:{run.row.id}:{run.row.attempt}",
        parent_id=run.row.id,
        depth=run.depth + 1,
        correlation_id=run.correlation_id,
        trace=next((attempt.trace for attempt in run.attempts[-1:]), None) or run.trace,
    )


def is_control(error: BaseException | None) -> bool:
    """Whether an exception is one of our control signals, alone or inside a group."""
    return error is not None and any(isinstance(leaf, EffectLogControl) for leaf in _leaves(error))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The exception, or those that a group of them holds."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def report_left_behind(attempt: Attempt) -> None:
    """Warn of effects that the body called and did not wait for, and that were too late to be sent."""
    if attempt.cut_off:
        warn(
            f"task {attempt.task.name} (run {attempt.run_id}, attempt {attempt.fence.attempt}) was over "
            f"before effect {', '.join(sorted(attempt.cut_off))} could begin, so nothing was sent; wait for "
            "the task or thread that calls it, or cancel it",
            **attempt.extra,
        )


def report_unclaimed(attempt: Attempt) -> None:
    """Warn of recorded effects that this attempt did not call: the code may have changed."""
    left = [effect for key, effect in attempt.journal.items() if key not in attempt.called]
    if not left:
        return
    new = [effect for effect in attempt.journal.values() if effect.attempt == attempt.fence.attempt]
    parts = []
    for effect in left:
        part = f"{effect.key!r} ({effect.name})"
        for other in new:
            # Other arguments are another operation, and no sign of a changed template.
            if (other.name, other.fingerprints) == (effect.name, effect.fingerprints):
                part += (
                    f", while the same effect was requested as {other.key!r}: a changed key template makes a "
                    f"second operation"
                )
                break
        parts.append(part)
    warn(
        f"run {attempt.run_id}, attempt {attempt.fence.attempt} of task {attempt.task.name} did not call "
        f"effects that an earlier attempt recorded: {'; '.join(parts)}",
        **attempt.extra,
    )
