"""What is read from the open stores when a metric reader collects, on that reader's thread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from opentelemetry.metrics import Observation

from effectlog.errors import EffectLogError
from effectlog.telemetry.open_stores import watched

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opentelemetry.metrics import CallbackOptions

STATES = ("pending", "running", "held")
PATIENCE = 2.0
"""Seconds that a reader waits for a store; then it gets no value."""


def runs_by_state(options: CallbackOptions) -> Iterable[Observation]:
    """The number of runs in each state that is not an end."""
    del options
    for store, health in _healths():
        counts = health.get("states") or {}
        for state in STATES:
            attributes = {"effectlog.store": store, "effectlog.run.state": state}
            yield Observation(counts.get(state, 0), attributes)


def oldest_doubt(options: CallbackOptions) -> Iterable[Observation]:
    """Seconds since the oldest effect in doubt was started; 0 where nothing is in doubt."""
    del options
    for store, health in _healths():
        since = health.get("oldest_doubt_at")
        age = 0.0 if since is None else max(0.0, time.time() - since)
        yield Observation(age, {"effectlog.store": store})


def _healths() -> Iterator[tuple[str, dict[str, Any]]]:
    for store, health in watched():
        try:
            yield store, health(PATIENCE)
        except (EffectLogError, TimeoutError):
            continue
