"""Which runs a caller means: a state, a task, a place in the list, checked and as a store takes them."""

from __future__ import annotations

import re
from typing import Any

from effectlog.decorators.task import spec_of
from effectlog.errors import ConfigurationError
from effectlog.model import RunState
from effectlog.store.protocol import RunFilter

_RUN_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def known_state(state: RunState | str) -> RunState:
    """The state of this name; ConfigurationError, with all names, where there is none."""
    try:
        return RunState(state)
    except ValueError:
        known = ", ".join(candidate.value for candidate in RunState)
        raise ConfigurationError(f"state {state!r} is not one of {known}") from None


def chosen(state: RunState | str | None, task: Any, before: str | None, limit: int = 0) -> RunFilter:
    """The filter for runs in this state, of this task (or stored name), made before that run.

    Raises ConfigurationError for a ``before`` that no run has for an id: it would be taken for a place in the list.
    """
    if before is not None and not _RUN_ID.fullmatch(before):
        raise ConfigurationError(f"before={before!r} is not a run's id; give the id of a run that was listed")
    name = task if task is None or isinstance(task, str) else spec_of(task).name
    return RunFilter(None if state is None else known_state(state), name, limit, before)


def chosen_in_bulk(
    action: str,
    state: RunState | str | None,
    task: Any,
    before: str | None,
    *,
    otherwise: RunState | None = None,
) -> RunFilter:
    """As ``chosen``, for what is done to all of them: a filter that was forgotten must not mean every run there is.

    ``otherwise``: the state meant where only the task is named.
    """
    if state is None and task is None:
        raise ConfigurationError(
            f"{action}() without a filter would take every run of every task; say which, as in "
            f"{action}(state='pending') or {action}(task=fulfil)"
        )
    return chosen(otherwise if state is None else state, task, before)
