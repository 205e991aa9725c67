"""What a task must be like to be run for events: whoever emits may know nothing of it but what is stored."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from effectlog.errors import ConfigurationError

if TYPE_CHECKING:
    from effectlog.decorators.spec import TaskSpec


def check_subscriber(spec: TaskSpec) -> None:
    """Raise ConfigurationError unless all that an emitter needs can be stored with the subscription."""
    if not spec.events:
        return
    parameter = payload_parameter(spec)
    key = spec.concurrency_key
    if key is not None and (spec.concurrency_template is None or key.fields - {parameter}):
        raise ConfigurationError(
            f"task {spec.name} is subscribed to an event, so its concurrency_key= is a template over its "
            f"payload {{{parameter}}} alone: whoever emits may know nothing else of it"
        )


def payload_parameter(spec: TaskSpec) -> str:
    """The parameter that takes an event's payload. Raises ConfigurationError for a signature without one."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    takers = [p for p in spec.signature.parameters.values() if p.kind not in variadic]
    required = [p.name for p in takers if p.default is p.empty]
    names = [p.name for p in takers]
    if not names or len(required) > 1:
        raise ConfigurationError(
            f"task {spec.name} is subscribed to an event, so it takes the payload as its one required "
            f"parameter; its signature is {spec.signature}"
        )
    return required[0] if required else names[0]
