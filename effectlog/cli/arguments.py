"""JSON from the command line as values: an effect's answer, a task's arguments."""

from __future__ import annotations

import inspect
import json
import typing
from typing import Any

import click

from effectlog.codec import convert
from effectlog.decorators.functions import plain
from effectlog.decorators.task import spec_of
from effectlog.decorators.task_arguments import bound
from effectlog.errors import DecodingError


def json_value(text: str, name: str) -> Any:
    """The value that a JSON text stands for.

    Anything else is a usage error that shows where it breaks off.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is not JSON ({error}); quote texts, as in '\"text\"'", param_hint=name
        ) from None


def json_arguments(text: str, name: str) -> list[Any] | dict[str, Any]:
    """As ``json_value``, for the two kinds that can be a task's arguments: array and object."""
    parsed = json_value(text, name)
    if isinstance(parsed, list | dict):
        return parsed
    raise click.BadParameter(
        f"{text!r} is neither an array (positional) nor an object (keyword arguments)", param_hint=name
    )


def call_arguments(task: Any, given: list[Any] | dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What to call the task with: each JSON value converted as its parameter is declared.

    Raises Python's own TypeError for arguments that don't fit the signature, DecodingError naming the
    parameter for a value that can't be what is declared.
    """
    spec = spec_of(task)
    values = bound(spec, tuple(given), {}) if isinstance(given, list) else bound(spec, (), given)
    hints = _annotations(task)
    parameters = spec.signature.parameters
    for name, value in values.items():
        values[name] = _converted(spec.name, parameters[name], value, hints.get(name, Any))
    call = inspect.BoundArguments(spec.signature, values)
    return call.args, call.kwargs


def _annotations(task: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(inspect.unwrap(plain(task.__wrapped__)), include_extras=True)
    except Exception:  # An annotation that can't be resolved declares nothing.
        return {}


def _converted(task: str, parameter: inspect.Parameter, value: Any, declared: Any) -> Any:
    try:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            return tuple(convert(item, declared) for item in value)
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            return {name: convert(item, declared) for name, item in value.items()}
        return convert(value, declared)
    except DecodingError as error:
        raise DecodingError(
            f"argument {parameter.name!r} of task {task}: {error}",
            path=parameter.name,
            type_name=error.type_name,
        ) from error
