"""An applied value, given by a person, a look-up or as JSON, converted to a return annotation."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec

from effectlog.codec.classes import classes_in, is_pydantic
from effectlog.codec.refusal import type_name
from effectlog.errors import DecodingError

if TYPE_CHECKING:
    from collections.abc import Callable

_UNDECLARED = (Any, inspect.Signature.empty)


def return_annotation(function: Callable[..., Any]) -> Any:
    """What ``function`` is declared to return, with names resolved; ``Any`` where that is not possible.

    Call it when a value is at hand rather than at decoration: a class may be defined below the function.
    """
    target = inspect.unwrap(function)
    try:
        return typing.get_type_hints(target, include_extras=True).get("return", Any)
    except Exception:
        declared = getattr(target, "__annotations__", {}).get("return", Any)
        return Any if isinstance(declared, str) else declared


def convert(value: object, annotation: Any) -> Any:
    """``value`` as ``annotation`` asks: JSON text to dates, UUIDs and enums, objects to models, and so on.

    A value that already is what was declared stays as it is; without a declaration every value does.
    Raises ``DecodingError`` saying what did not fit.
    """
    if isinstance(annotation, str) or any(annotation is undeclared for undeclared in _UNDECLARED):
        return value
    try:
        return _convert(value, annotation)
    except Exception as error:
        shown = annotation.__qualname__ if type(annotation) is type else str(annotation)
        raise DecodingError(
            f"a value of type {type_name(type(value))} does not fit the declared {shown}: {error}",
            path="",
            type_name=type_name(type(value)),
        ) from error


def _convert(value: object, annotation: Any) -> Any:
    if any(is_pydantic(cls) for cls in classes_in(annotation)):
        return sys.modules["pydantic"].TypeAdapter(annotation).validate_python(value)
    try:
        return msgspec.convert(value, annotation, dec_hook=_instance, str_keys=_has_text_keys(value))
    except TypeError:
        # msgspec refuses some declarations as a whole, such as a union of two classes.
        return _by_parts(value, annotation)


def _has_text_keys(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


def _instance(cls: type, value: object) -> object:
    if isinstance(value, cls):
        return value
    if is_pydantic(cls):
        return getattr(cls, "model_validate")(value)  # noqa: B009 - its type is not known without pydantic
    raise ValueError(f"expected {type_name(cls)}, got {type_name(type(value))}")


def _by_parts(value: Any, annotation: Any) -> Any:
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _convert(value, parts[0])
    if origin in (typing.Union, types.UnionType):
        return _first_fit(value, parts)
    if origin in (list, set, frozenset) and isinstance(value, (list, tuple, set, frozenset)):
        return origin(_convert(item, parts[0]) for item in value)
    if origin is dict and isinstance(value, dict):
        return {_convert(key, parts[0]): _convert(item, parts[1]) for key, item in value.items()}
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _member(annotation, value)
    raise TypeError("the declared type can't be converted to; give a value of that type itself")


def _member(cls: type[Enum], value: Any) -> Enum:
    named = cls.__members__.get(value) if isinstance(value, str) else None
    return named if named is not None else cls(value)


def _first_fit(value: object, arms: tuple[Any, ...]) -> Any:
    if any(type(value) is arm for arm in arms):
        return value
    failures = []
    for arm in arms:
        try:
            return _convert(value, arm)
        except Exception as error:
            failures.append(str(error))
    raise ValueError("; ".join(failures))
