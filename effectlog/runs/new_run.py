"""What holds for every new run, however it is made: its parent, concurrency key, and idempotency conflict.

A running attempt may make runs with a key, not too deep, and not beside its own transaction.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from effectlog.decorators.registry import registered
from effectlog.errors import ConfigurationError, IdempotencyConflict, KeyTemplateError
from effectlog.keys import KeyTemplate
from effectlog.store import commands as c
from effectlog.worker.outcome import MAX_DEPTH

if TYPE_CHECKING:
    from effectlog.context import RunningAttempt
    from effectlog.decorators.spec import TaskSpec
    from effectlog.store.rows import NewRun


# --- the parent ------------------------------------------------------------------------------------


def check_child(attempt: RunningAttempt | None, key: str | None, what: str) -> None:
    """Check that the running attempt may make a run. ``what`` names the call in the message.

    Raises ConfigurationError without an idempotency key and at the end of too long a chain of runs; the
    control signal of an attempt that is ending.
    """
    if attempt is None:
        return
    attempt.check_open()
    if key is None:
        raise ConfigurationError(
            f"{what} inside run {attempt.run_id} needs an idempotency key: without one, each re-execution "
            "would make another run. Use task.with_options(idempotency_key=…) or emit(…, idempotency_key=…)"
        )
    if attempt.run.depth + 1 > MAX_DEPTH:
        raise ConfigurationError(
            f"{what}: run {attempt.run_id} stands at the end of a chain of {MAX_DEPTH} runs, each made by "
            "the one before; a chain that never ends is stopped here"
        )


def inherit(run: NewRun, attempt: RunningAttempt | None) -> NewRun:
    """Make the run a child of the attempt's run, if there is one; returns it."""
    if attempt is not None:
        run.parent_id = attempt.run_id
        run.depth = attempt.run.depth + 1
        run.correlation_id = run.correlation_id or attempt.run.correlation_id
    return run


def fence_of(attempt: RunningAttempt | None) -> c.Fence | None:
    """The fence by which the store refuses what an attempt makes after it lost its run."""
    return None if attempt is None else attempt.fence


# --- concurrency keys ------------------------------------------------------------------------------


def concurrency_key(spec: TaskSpec, arguments: dict[str, Any]) -> str | None:
    """The key that limits how many runs execute side by side; None for a task without one."""
    if spec.concurrency_key is None:
        return None
    call = inspect.BoundArguments(spec.signature, OrderedDict(arguments))
    return spec.concurrency_key.render(_defaults(spec) | arguments, call.args, call.kwargs)


def _defaults(spec: TaskSpec) -> dict[str, Any]:
    return {
        name: parameter.default
        for name, parameter in spec.signature.parameters.items()
        if parameter.default is not parameter.empty
    }


def subscriber_key(subscription: c.Subscription, arguments: dict[str, Any]) -> str | None:
    """As ``concurrency_key``, for a task that this process may know only by its stored subscription."""
    known = registered().get(subscription.task)
    if known is not None:
        return concurrency_key(known, arguments)
    if subscription.concurrency_key is None:
        return None
    try:
        template = KeyTemplate(subscription.concurrency_key, subscriber_key, arguments)
        return template.render(arguments, (), arguments)
    except KeyTemplateError as error:
        raise KeyTemplateError(
            f"the concurrency key {subscription.concurrency_key!r}, under which {subscription.task} is "
            f"subscribed to {subscription.event!r}, can't be built: {error}"
        ) from error


# --- what became of it -----------------------------------------------------------------------------


def created(outcome: c.Outcome, attempt: RunningAttempt | None) -> c.Created:
    """The runs that a command made or found. Raises LeaseLost if the store refused the attempt's fence."""
    if isinstance(outcome, c.Created):
        return outcome
    assert attempt is not None  # noqa: S101 - only a fenced command can be refused
    raise attempt.lose()


def conflict(command: c.CreateRuns, existing: c.Created, names: list[str]) -> IdempotencyConflict:
    """The error for an idempotency key whose run was made with other values of these parameters."""
    return IdempotencyConflict(
        f"idempotency key {command.idempotency_key!r} of {command.scope} belongs to run "
        f"{existing.run_ids[0]} with another {', '.join(names)}; use a new key for a new operation, or the "
        "first call's arguments",
        scope=command.scope,
        idempotency_key=command.idempotency_key,
        parameters=names,
        run_id=existing.run_ids[0],
    )
