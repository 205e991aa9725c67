"""Classes whose objects can be stored: what they are called, how they are found, read and rebuilt.

Only dataclasses, enums, named tuples, pydantic models and msgspec Structs. A class is found through an
annotation, a registration or a module that is already imported; nothing here ever imports one, calls a
module's ``__getattr__`` or looks further than plain ``__dict__`` entries. pydantic is never imported: an
object can only be a model if its process has imported it already.

Objects are rebuilt from their state, as ``copy`` does, and not by ``__init__``: the stored state is what
the constructor, its validators and ``__post_init__`` had already made of it. msgspec Structs are the one
exception: C code allows no other way than the constructor, so ``__post_init__`` runs, and the stored
state is put back over whatever it did.
"""

from __future__ import annotations

import dataclasses
import sys
import typing
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from effectlog.codec.refusal import RefusalError, type_name

if typing.TYPE_CHECKING:
    from collections.abc import Iterator

C = TypeVar("C", bound=type)

_registered: dict[str, type] = {}


def register(cls: C, *aliases: str) -> C:
    """Let decoding find ``cls`` by its stored name; usable as a decorator.

    Needed for classes that can't be reached as ``module.Name``: made in a function, or bound to another
    name. ``aliases`` are further stored names, written ``module:Qualified.Name``, under which rows of an
    earlier release know this class, for a class that was moved or renamed.
    Raises ``TypeError`` for a class whose objects can't be stored anyway.
    """
    if not is_storable(cls):
        raise TypeError(f"{type_name(cls)} is not a dataclass, enum, named tuple, pydantic model or Struct")
    for name in (raw_name(cls), *aliases):
        _registered[name] = cls
    return cls


def raw_name(cls: type) -> str:
    """``module:Qualified.Name``, with the real module name of a program started by ``python -m``."""
    module = cls.__module__
    if module == "__main__":
        spec = getattr(sys.modules.get("__main__"), "__spec__", None)
        module = spec.name if spec is not None else module
    return f"{module}:{cls.__qualname__}"


@lru_cache(maxsize=1024)
def stored_name(cls: type) -> str:
    """The name under which decoding will find ``cls`` again, or a refusal that says what to change."""
    name = raw_name(cls)
    found = _registered.get(name) or _imported(name)
    if found is not None and raw_name(found) == name:
        return name
    if "<locals>" in name:
        advice = "it was made inside a function: move it to the top of its module"
    else:
        advice = f"its module has no {cls.__qualname__!r} by which it could be found again"
    raise RefusalError(f"{advice}, or pass it to effectlog's codec.register", type_name(cls))


def find(name: str, annotation: Any) -> type:
    """The class stored under ``name``, or a refusal that says how to make it known."""
    cls = _annotated(name, annotation) or _registered.get(name) or _imported(name)
    if cls is None:
        raise RefusalError(
            f"no class {name!r} is known in this process: import its module, name it in the function's"
            " annotations, or pass it to effectlog's codec.register",
            name,
        )
    if not is_storable(cls):
        raise RefusalError("it is not a dataclass, enum, named tuple, pydantic model or Struct here", name)
    return cls


def _imported(name: str) -> type | None:
    module_name, _, qualified = name.partition(":")
    module = sys.modules.get(module_name)
    if module is None:
        main = sys.modules.get("__main__")
        spec = getattr(main, "__spec__", None)
        module = main if spec is not None and spec.name == module_name else None
    found: Any = module
    for part in qualified.split("."):
        # Not getattr: a lazy module's __getattr__ imports, a descriptor runs code.
        found = getattr(found, "__dict__", {}).get(part)
    return found if isinstance(found, type) else None


def _annotated(name: str, annotation: Any) -> type | None:
    module, _, qualified = name.partition(":")
    for cls in classes_in(annotation):
        if cls.__qualname__ != qualified:
            continue
        # A script's own classes are stored as __main__ and read by a worker that imported the script.
        if cls.__module__ == module or "__main__" in (cls.__module__, module):
            return cls
    return None


def classes_in(annotation: Any) -> Iterator[type]:
    """Every class named in an annotation: through Optional, Union, list[...], Annotated, aliases."""
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        yield annotation
    for inner in ("__value__", "__supertype__"):  # ``type X = ...`` and NewType
        if not isinstance(annotation, type) and hasattr(annotation, inner):
            yield from classes_in(getattr(annotation, inner))
    origin = typing.get_origin(annotation)
    if isinstance(origin, type):
        yield origin
    for part in annotation if isinstance(annotation, (list, tuple)) else typing.get_args(annotation):
        yield from classes_in(part)


def is_storable(cls: type) -> bool:
    """Whether objects of ``cls`` can be stored as an object, enum member or named tuple."""
    return issubclass(cls, Enum) or is_namedtuple(cls) or is_record(cls)


def is_record(cls: type) -> bool:
    """Whether ``cls`` has fields that make up its state: dataclass, pydantic model or Struct."""
    return dataclasses.is_dataclass(cls) or issubclass(cls, msgspec.Struct) or is_pydantic(cls)


def is_namedtuple(cls: type) -> bool:
    """Whether ``cls`` is a ``collections.namedtuple`` or ``typing.NamedTuple`` class."""
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def is_pydantic(cls: type) -> bool:
    """Whether ``cls`` is a pydantic v2 model, asked without importing pydantic."""
    pydantic = sys.modules.get("pydantic")
    base = getattr(pydantic, "BaseModel", None)
    return isinstance(base, type) and issubclass(cls, base)


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """What an object holds: its declared fields, and whatever else was set on it."""

    fields: dict[str, Any]
    others: dict[str, Any]

    @property
    def undeclared(self) -> dict[str, Any]:
        """A model's extra fields: not declared, but given by the caller all the same."""
        return {name: part for name, part in self.others.items() if name == _PYDANTIC_EXTRA and part}


def state_of(value: Any) -> State:
    """Read an object's state, without running code of its class where that can be avoided."""
    cls: Any = type(value)
    names = field_names(cls)
    fields = {name: part for name in names if (part := getattr(value, name, _MISSING)) is not _MISSING}
    known = {*names, "__orig_class__"}  # typing's note on objects of a generic class
    others = {name: part for name, part in getattr(value, "__dict__", {}).items() if name not in known}
    if is_pydantic(cls):
        held = {name: getattr(value, name, None) for name in _PYDANTIC_STATE}
        others |= {name: part for name, part in held.items() if part is not None}
    return State(fields, others)


_MISSING: Any = object()
_PYDANTIC_EXTRA = "__pydantic_extra__"
_PYDANTIC_STATE = ("__pydantic_fields_set__", _PYDANTIC_EXTRA, "__pydantic_private__")


@lru_cache(maxsize=1024)
def field_names(cls: Any) -> tuple[str, ...]:
    """The declared fields of a storable class, in their order."""
    if issubclass(cls, msgspec.Struct):
        return tuple(cls.__struct_fields__)
    if cls.__new__ is not object.__new__:
        raise RefusalError("its class has its own __new__, so fields can't rebuild it", type_name(cls))
    if is_pydantic(cls):
        return tuple(cls.__pydantic_fields__)
    return tuple(field.name for field in dataclasses.fields(cls))


def rebuild(cls: type, state: State) -> Any:
    """An object of ``cls`` with exactly this state; fields added since it was stored take their defaults."""
    gone = state.fields.keys() - set(field_names(cls))
    if gone:
        raise RefusalError(
            f"the stored object has fields that its class no longer has: {sorted(gone)}", type_name(cls)
        )
    if issubclass(cls, msgspec.Struct):
        return _rebuild_struct(cls, state)
    added = _pydantic_defaults(cls, state) if is_pydantic(cls) else _dataclass_defaults(cls, state)
    value = object.__new__(cls)
    for name, part in (state.fields | added | state.others).items():
        object.__setattr__(value, name, part)  # frozen, slotted and hooked classes alike
    return value


def _rebuild_struct(cls: type[msgspec.Struct], state: State) -> msgspec.Struct:
    value = cls(**state.fields)
    for name, part in (state.fields | state.others).items():
        msgspec.structs.force_setattr(value, name, part)
    return value


def _dataclass_defaults(cls: Any, state: State) -> dict[str, Any]:
    defaults: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        if field.name in state.fields:
            continue
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory()
        elif field.init:
            raise _added(cls, field.name)
    return defaults


def _pydantic_defaults(cls: Any, state: State) -> dict[str, Any]:
    defaults: dict[str, Any] = dict.fromkeys(_PYDANTIC_STATE)
    defaults["__pydantic_fields_set__"] = set(state.fields)
    for name, field in cls.__pydantic_fields__.items():
        if name not in state.fields:
            if field.is_required():
                raise _added(cls, name)
            defaults[name] = field.get_default(call_default_factory=True)
    return defaults


def _added(cls: type, field: str) -> RefusalError:
    return RefusalError(
        f"the stored object lacks the field {field!r}; give the field a default", type_name(cls)
    )
