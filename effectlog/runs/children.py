"""What a running attempt may make: children with a key, not too deep, and not beside its own transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effectlog.context import Request, here_attempt, place
from effectlog.errors import ConfigurationError
from effectlog.worker.outcome import MAX_DEPTH

if TYPE_CHECKING:
    from effectlog.context import RunningAttempt
    from effectlog.store.commands import Chain
    from effectlog.store.rows import NewRun


def check_no_transaction() -> None:
    """Beside an effect's own transaction a run would stay where that is rolled back; on SQLite it would wait for it."""
    here = place.get()
    if isinstance(here, Request) and here.transaction is not None:
        raise ConfigurationError(
            "a transactional effect makes runs in its own transaction: use log.within(current_transaction()), or "
            "log.sync.within(...) in a sync effect"
        )


def chain() -> Chain | None:
    """The writes that a child of the running attempt must not overtake."""
    attempt = here_attempt()
    return None if attempt is None else attempt.chain


def check_child(attempt: RunningAttempt, key: str | None, what: str) -> None:
    attempt.check_open()
    if key is None:
        raise ConfigurationError(
            f"{what} inside run {attempt.run_id} needs an idempotency key: without one, each re-execution would make "
            f"another run. Use task.with_options(idempotency_key=…) or emit(…, idempotency_key=…)"
        )
    if attempt.run.depth + 1 > MAX_DEPTH:
        raise ConfigurationError(
            f"{what}: run {attempt.run_id} stands at the end of a chain of {MAX_DEPTH} runs, each made by the one "
            f"before; a chain that never ends is stopped here"
        )


def inherit(run: NewRun, attempt: RunningAttempt | None) -> None:
    if attempt is None:
        return
    run.parent_id = attempt.run_id
    run.depth = attempt.run.depth + 1
    run.correlation_id = run.correlation_id or attempt.run.correlation_id
