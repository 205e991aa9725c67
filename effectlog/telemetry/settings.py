"""Who listens, and what they may be told. Imports OpenTelemetry only where somebody else has done so."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from effectlog import user_warnings

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

NAME = "effectlog"
"""The instrumentation scope."""
_TO_BE_LOADED = any(
    name in os.environ for name in ("OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER")
)
"""The environment names a provider, which the API loads when it is first asked for one."""


@dataclass(slots=True)
class Settings:
    """What ``configure`` sets."""

    effect_keys: bool = True
    baggage: bool = False
    own_traces: bool = False
    tracer_provider: TracerProvider | None = None
    meter_provider: MeterProvider | None = None


settings = Settings()


def configure(
    *,
    effect_keys: bool = True,
    baggage: bool = False,
    own_traces: bool = False,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> None:
    """Say what telemetry this process gives.

    Each call replaces the earlier one's answers, and the next attempt obeys.

    Args:
        effect_keys: put effect keys into spans and log lines; switch it off where they hold personal data.
        baggage: store the enqueuer's baggage with the run and hand it to the task, in any process. It
            travels on with the requests that the task makes, so it is off unless asked for.
        own_traces: begin a trace for each attempt, linked to the enqueuer's, instead of going on in
            the same trace.
        tracer_provider: used instead of the global one.
        meter_provider: used instead of the global one.
    """
    settings.effect_keys = user_warnings.show_effect_keys = effect_keys
    settings.baggage = baggage
    settings.own_traces = own_traces
    settings.tracer_provider = tracer_provider
    settings.meter_provider = meter_provider


def tracer_provider() -> TracerProvider | None:
    """The provider that records spans.

    None where there is none, without importing the API to find that out.
    """
    if settings.tracer_provider is not None:
        return settings.tracer_provider
    api = _loaded("opentelemetry.trace")
    if api is None:
        return None
    provider: TracerProvider = api.get_tracer_provider()
    return None if isinstance(provider, (api.ProxyTracerProvider, api.NoOpTracerProvider)) else provider


def meter_provider() -> MeterProvider | None:
    """As ``tracer_provider``, for metrics."""
    if settings.meter_provider is not None:
        return settings.meter_provider
    api = _loaded("opentelemetry.metrics")
    if api is None:
        return None
    provider: MeterProvider = api.get_meter_provider()
    # The API keeps the class of its placeholder private. Should it be renamed, metrics go to it and are
    # dropped.
    if isinstance(provider, api.NoOpMeterProvider) or "Proxy" in type(provider).__name__:
        return None
    return provider


def _loaded(module: str) -> Any:
    """The module if anybody imported it: without that, nobody can have set a provider or a span."""
    found = sys.modules.get(module)
    if found is None and _TO_BE_LOADED:
        __import__(module)
        found = sys.modules[module]
    return found
