"""The calls of ``enqueue_many``, each beside its idempotency key, and what a conflict among them leaves."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, Any

from effectlog.errors import ConfigurationError, IdempotencyConflict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from effectlog.run import Run


def keyed_task(task: Any, key: str | None) -> Any:
    return task if key is None else task.with_options(idempotency_key=key)


def with_keys(
    calls: Iterable[tuple[Any, ...]], keys: Sequence[str] | None
) -> Iterator[tuple[tuple[Any, ...], str | None]]:
    if keys is None:
        pairs: Iterable[tuple[tuple[Any, ...], str | None]] = ((args, None) for args in calls)
    else:
        if isinstance(calls, Sized) and len(calls) != len(keys):
            raise ConfigurationError(
                f"enqueue_many: {len(calls)} calls and {len(keys)} idempotency keys; give one key a call"
            )
        pairs = zip(calls, keys, strict=True)
    for args, key in pairs:
        if not isinstance(args, tuple | list):
            raise ConfigurationError(
                f"enqueue_many takes one tuple of positional arguments a run, as in [(1,), (2,)], not {args!r}"
            )
        yield tuple(args), key


def conflict_among(conflict: IdempotencyConflict, runs: Iterable[Run[Any]]) -> IdempotencyConflict:
    """The first conflict, with what the whole call has made, which stays."""
    made = tuple(run.id for run in runs if run.created)
    return IdempotencyConflict(
        f"{conflict}. The runs of the other calls up to here are stored ({len(made)} new ones, in the field "
        f"'created'): with their keys, the same enqueue_many gives them again",
        **{**conflict.__dict__, "created": made},
    )
