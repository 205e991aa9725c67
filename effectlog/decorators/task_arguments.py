"""A task's arguments between a call and a record: bound by name, encoded, and called with again."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from effectlog.codec import encode_as
from effectlog.decorators.functions import short_name
from effectlog.errors import DecodingError, EncodingError
from effectlog.keys import Seals, differing, fingerprints

if TYPE_CHECKING:
    from collections.abc import Mapping

    from effectlog.codec import Codec
    from effectlog.decorators.spec import TaskSpec

_KINDS = inspect.Parameter


def bound(task: TaskSpec, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Parameter name to given value, without defaults; a wrong call raises Python's own TypeError."""
    try:
        return dict(task.signature.bind(*args, **kwargs).arguments)
    except TypeError as error:
        raise TypeError(f"{short_name(task.function)}() {error}") from None


def encoded(task: TaskSpec, arguments: Mapping[str, Any], codec: Codec) -> bytes:
    """The arguments as stored. Raises EncodingError naming task, parameter, type and remedy."""
    try:
        return encode_as(codec, dict(arguments), "arguments")
    except EncodingError:
        for name, value in arguments.items():
            _check(task, name, value, codec)
        raise


def _check(task: TaskSpec, name: str, value: Any, codec: Codec) -> None:
    try:
        encode_as(codec, value, name)
    except EncodingError as error:
        raise EncodingError(
            f"argument {name!r} of task {task.name} can't be stored: {error}. Pass what identifies it (an "
            "id, a URL) and build the object inside the task",
            path=f"{name}{getattr(error, 'path', '')}",
            type_name=type(value).__qualname__,
        ) from error


def argument_fingerprints(task: TaskSpec, arguments: Mapping[str, Any]) -> dict[str, str]:
    """One fingerprint a given parameter, to tell whether an idempotency key is used for the same call."""
    return fingerprints(arguments, frozenset(), owner=task.name)


def differing_parameters(
    task: TaskSpec, stored: Mapping[str, str], given: Mapping[str, str], run_id: str, seals: Seals
) -> list[str]:
    """The parameters that differ between a run's stored call and a new one.

    An absent one counts as its default.

    Raises OtherSecretError if that can't be told.
    """
    defaults: dict[str, Any] = {}
    for name, parameter in task.signature.parameters.items():
        if parameter.kind is _KINDS.VAR_POSITIONAL:
            defaults[name] = ()
        elif parameter.kind is _KINDS.VAR_KEYWORD:
            defaults[name] = {}
        elif parameter.default is not _KINDS.empty:
            defaults[name] = parameter.default
    bare = fingerprints(defaults, frozenset(), owner=task.name)
    return differing(stored, seals.like(stored, given, run_id), seals.like(stored, bare, run_id))


def call_arguments(task: TaskSpec, data: bytes, codec: Codec) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What to call the task with.

    Raises DecodingError for arguments that can't be rebuilt, TypeError naming the parameter for
    arguments that no longer fit the signature.
    """
    values = codec.decode(data, task.accepts.value)
    if not isinstance(values, dict):
        raise DecodingError("the stored arguments are not a mapping of names", path="args", type_name="")
    _check_fit(task, values)
    call = inspect.BoundArguments(task.signature, values)
    return call.args, call.kwargs


def _check_fit(task: TaskSpec, values: dict[str, Any]) -> None:
    parameters = task.signature.parameters
    unknown = [name for name in values if name not in parameters]
    missing = [
        name
        for name, parameter in parameters.items()
        if name not in values
        and parameter.default is _KINDS.empty
        and parameter.kind not in (_KINDS.VAR_POSITIONAL, _KINDS.VAR_KEYWORD)
    ]
    if unknown or missing:
        parts = [f"has no parameter {name!r} any more" for name in unknown]
        parts += [f"needs a parameter {name!r} that the run doesn't have" for name in missing]
        raise TypeError(
            f"the stored arguments no longer fit task {task.name}{task.signature}: it {' and '.join(parts)}. "
            "Give new parameters a default, keep old ones, then 'effectlog retry' the run"
        )
