"""The instruments, as one table, and what is counted outside of attempts."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from effectlog.model import RunState
from effectlog.telemetry.gauges import oldest_doubt, runs_by_state
from effectlog.telemetry.settings import NAME, meter_provider

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, MeterProvider

    from effectlog.store import commands as c
    from effectlog.store.rows import RunRow

COUNTERS = {
    "effectlog.attempts": ("{attempt}", "Recorded ends of attempts"),
    "effectlog.requests": ("{request}", "Requests about to be made"),
    "effectlog.effects.completed": ("{effect}", "Completed records"),
    "effectlog.replays": ("{replay}", "Answers from the journal"),
    "effectlog.resends": ("{request}", "Requests sent while an earlier one had no outcome"),
    "effectlog.holds": ("{run}", "Attempts that ended held"),
    "effectlog.lease.losses": ("{attempt}", "Attempts that lost their run"),
    "effectlog.takeovers": ("{takeover}", "Runs got from another owner"),
    "effectlog.dead_letters": ("{run}", "Runs that ended failed"),
}
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
HISTOGRAMS = {
    "effectlog.queue.wait": ("s", "From due to claimed", _SECONDS),
    "effectlog.attempt.duration": ("s", "From claim to recorded end", _SECONDS),
    "effectlog.request.duration": ("s", "One call of an effect's function", _SECONDS),
    "effectlog.commit.duration": ("s", "One transaction", _SECONDS),
    "effectlog.commit.batch_size": ("{command}", "Commands in a transaction", _SIZES),
    "effectlog.takeover.duration": (
        "s",
        "From the earlier attempt's recorded end to the next claim",
        _SECONDS,
    ),
}
GAUGES = {
    "effectlog.runs": ("{run}", "Runs that have not ended, by state", runs_by_state),
    "effectlog.doubt.oldest_age": ("s", "Age of the oldest effect in doubt", oldest_doubt),
}


class Meters:
    """The instruments of one meter provider."""

    def __init__(self, provider: MeterProvider) -> None:
        meter = provider.get_meter(NAME)
        self._counters: dict[str, Counter] = {
            name: meter.create_counter(name, unit, text) for name, (unit, text) in COUNTERS.items()
        }
        self._histograms: dict[str, Histogram] = {
            name: meter.create_histogram(name, unit, text, explicit_bucket_boundaries_advisory=bounds)
            for name, (unit, text, bounds) in HISTOGRAMS.items()
        }
        for name, (unit, text, observe) in GAUGES.items():
            meter.create_observable_gauge(name, [observe], unit, text)

    def count(self, name: str, **attributes: str) -> None:
        """Count one."""
        self._counters[f"effectlog.{name}"].add(1, _named(attributes))

    def measure(self, name: str, value: float, **attributes: str) -> None:
        """Record one value."""
        self._histograms[f"effectlog.{name}"].record(value, _named(attributes))


def _named(attributes: dict[str, str]) -> dict[str, str]:
    return {f"effectlog.{name}": value for name, value in attributes.items() if value}


@lru_cache(maxsize=8)
def _meters_of(provider: MeterProvider) -> Meters:
    return Meters(provider)


def meters() -> Meters | None:
    """The instruments of the provider that is set now, if one is."""
    provider = meter_provider()
    return None if provider is None else _meters_of(provider)


def batch(store: str, commands: int, seconds: float) -> None:
    found = meters()
    if found is not None:
        found.measure("commit.duration", seconds, store=store)
        found.measure("commit.batch_size", commands, store=store)


def takeover(run: RunRow, reason: str, command: c.EndAttempt, moved: c.RunMoved) -> None:
    found = meters()
    if found is None:
        return
    outcome = "released" if run.releasing else command.outcome.value
    found.count("attempts", task=run.task, outcome=outcome)
    if not run.releasing:  # What was given back counts where it is claimed again.
        found.count("takeovers", task=run.task, reason=reason)
    if moved.state is RunState.FAILED:
        found.count("dead_letters", task=run.task)
    if moved.state is RunState.HELD:
        found.count("holds", task=run.task)
