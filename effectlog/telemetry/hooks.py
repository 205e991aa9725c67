"""What the core calls: each call finds out whether somebody listens, and only then loads what records.

The invariant: nothing here, and nothing behind it, ever raises into the core.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from effectlog.telemetry import settings
from effectlog.telemetry.guard import harmless
from effectlog.telemetry.observer import NOTHING, SILENT, Observer, Producer

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from effectlog.context import RunningAttempt
    from effectlog.store import commands as c
    from effectlog.store.rows import EffectRow, RunRow, StoredRun
    from effectlog.telemetry.observer import ObservedAttempt


@harmless(SILENT)
def observe(attempt: ObservedAttempt) -> Observer:
    """Begin to watch an attempt, in the context of the task that executes it, which ends with the attempt."""
    if settings.tracer_provider() is None and settings.meter_provider() is None:
        return SILENT
    from effectlog.telemetry.attempts import Recorder  # noqa: PLC0415 - imports OpenTelemetry

    return Recorder(attempt)


def producing(operation: str, name: str, store: str, attempt: RunningAttempt | None) -> Producer:
    """Runs of a task, or for an event, are made inside; ``attempt`` is the one that makes them."""
    inherited = None if attempt is None else attempt.run.trace
    return _producer(operation, name, store, attempt) or Producer(inherited)


@harmless(None)
def _producer(operation: str, name: str, store: str, attempt: RunningAttempt | None) -> Producer | None:
    if settings.tracer_provider() is None and "opentelemetry.trace" not in sys.modules:
        return None
    from effectlog.telemetry.producers import producer  # noqa: PLC0415 - imports OpenTelemetry

    return producer(operation, name, store, attempt)


def resolving(run: StoredRun, effect: EffectRow | None) -> AbstractContextManager[None]:
    """An effect in doubt is decided inside."""
    return _resolution(run, effect) or NOTHING


@harmless(None)
def _resolution(run: StoredRun, effect: EffectRow | None) -> AbstractContextManager[None] | None:
    if settings.tracer_provider() is None or effect is None:
        return None
    from effectlog.telemetry.producers import resolution  # noqa: PLC0415 - imports OpenTelemetry

    return resolution(run, effect)


@harmless(None)
def committed(store: str, commands: int, seconds: float) -> None:
    """A transaction was committed, with this many commands."""
    if settings.meter_provider() is not None:
        from effectlog.telemetry.meters import batch  # noqa: PLC0415 - imports OpenTelemetry

        batch(store, commands, seconds)


@harmless(None)
def taken_over(run: RunRow, reason: str, command: c.EndAttempt, moved: c.RunMoved) -> None:
    """An attempt of an owner that is gone was ended."""
    if settings.meter_provider() is not None:
        from effectlog.telemetry.meters import takeover  # noqa: PLC0415 - imports OpenTelemetry

        takeover(run, reason, command, moved)
