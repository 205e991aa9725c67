"""The base classes of both decorators: wrapt's wrappers, which bind and introspect as the function would.

wrapt's own types describe one call signature and no subclass; the decorators declare their own, so a type
checker sees plain bases here. Wrapped functions and their bound forms copy and pickle as undecorated ones do:
a function is its own copy and pickles by reference, a method as its object and its name.
"""

from __future__ import annotations

import pickle
import sys
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Self

import wrapt

if TYPE_CHECKING:

    class _BoundWrapper:
        """What a class or instance gets of a wrapped function."""

        __wrapped__: Any
        _self_parent: Any

    class _Wrapper:
        __wrapped__: Any

        def __init__(self, wrapped: Any, wrapper: Any) -> None: ...

else:
    _BoundWrapper = wrapt.BoundFunctionWrapper
    _Wrapper = wrapt.FunctionWrapper


class BoundFunctionWrapper(_BoundWrapper):
    """A wrapped function as its class or an instance hands it out."""

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._owner(), self.__wrapped__.__name__)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self.__reduce__()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        bound_to = getattr(self.__wrapped__, "__self__", None)
        if bound_to is None or isinstance(bound_to, type):
            return self
        twin = deepcopy(bound_to, memo)  # Half made still, where the object holds this method.
        return self._self_parent.__get__(twin, type(twin))

    def _owner(self) -> Any:
        """The object or class that it is bound to; a static method's is found by its name."""
        bound_to = getattr(self.__wrapped__, "__self__", None)
        return by_reference(self.__wrapped__, enclosing=True) if bound_to is None else bound_to


class FunctionWrapper(_Wrapper):
    """A function with another way to be called, otherwise itself."""

    if not TYPE_CHECKING:
        __bound_function_wrapper__ = BoundFunctionWrapper

    def __reduce__(self) -> Any:
        return _qualified(self.__wrapped__)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def _qualified(function: Any) -> str:
    name = getattr(function, "__qualname__", None)
    if name is None:
        raise pickle.PicklingError(
            f"can't pickle {function!r} once it is decorated: no import finds it by a name"
        )
    return str(name)


def by_reference(function: Any, *, enclosing: bool = False) -> Any:
    """What stands at a function's module and name, or what encloses that.

    Raises PicklingError if nothing does.
    """
    path = _qualified(function).split(".")
    found: Any = sys.modules.get(function.__module__)
    try:
        for part in path[:-1] if enclosing else path:
            found = getattr(found, part)
    except AttributeError:
        raise pickle.PicklingError(
            f"can't pickle {function.__module__}.{function.__qualname__}: no import finds it by that name"
        ) from None
    return found
