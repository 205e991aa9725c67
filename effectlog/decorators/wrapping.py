"""The base classes of both decorators: wrapt's wrappers, which bind and introspect as the function would.

wrapt's own types describe one call signature and no subclass; the decorators give their own, so a
type checker sees plain bases here. Wrapped functions pickle by reference and are their own copies, as functions are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import wrapt

if TYPE_CHECKING:

    class BoundFunctionWrapper:
        """What a class or instance gets of a wrapped function."""

        _self_parent: Any

    class _Wrapper:
        __wrapped__: Any

        def __init__(self, wrapped: Any, wrapper: Any) -> None: ...

else:
    BoundFunctionWrapper = wrapt.BoundFunctionWrapper
    _Wrapper = wrapt.FunctionWrapper


class FunctionWrapper(_Wrapper):
    """A function with another way to be called, otherwise itself."""

    def __reduce__(self) -> str:
        return str(self.__wrapped__.__qualname__)

    def __reduce_ex__(self, protocol: Any) -> str:
        return self.__reduce__()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self
