"""Binding a call's arguments to parameter names, exactly as calling the function would.

Python itself does it, through a generated function with the same parameters: many times faster than
``Signature.bind``, and a wrong call raises Python's own ``TypeError`` word for word. The function that is
bound is never called here.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from effectlog.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_Parameter = inspect.Parameter


class Binder:
    """Binds a call's arguments to one function's parameters, as calling it would.

    ``parameters`` are the names in signature order, without the first one where ``skip_first`` says that
    it is ``self`` or ``cls``; that one's name is then ``first``. ``defaults`` holds the declared defaults.
    Raises ``ConfigurationError`` for a callable whose signature Python can't tell.
    """

    def __init__(self, function: Callable[..., Any], *, skip_first: bool = False) -> None:
        signature = signature_of(function)
        declared = list(signature.parameters.values())
        self.first = declared[0].name if skip_first and declared else None
        bound = declared[1:] if self.first else declared
        self.parameters = tuple(parameter.name for parameter in bound)
        self.defaults = {p.name: p.default for p in bound if p.default is not _Parameter.empty}
        self._leading: tuple[None, ...] = (None,) if self.first else ()
        self._bind = _stand_in(function, signature, self.parameters)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Parameter name to value, defaults applied; ``*args`` and ``**kwargs`` as tuple and dict.

        ``args`` does not include ``self`` or ``cls``. Raises Python's own ``TypeError`` for a wrong call.
        """
        arguments: dict[str, Any] = self._bind(*self._leading, *args, **kwargs)
        return arguments

    def require(self, names: Iterable[str], option: str, owner: str) -> None:
        """Raise ``ConfigurationError`` for names in ``option`` that no parameter has, as when misspelt."""
        unknown = sorted(set(names) - set(self.parameters))
        if unknown:
            known = ", ".join(self.parameters) or "none"
            raise ConfigurationError(
                f"{owner}: {option} names {', '.join(unknown)}, but its parameters are: {known}",
                function=owner,
                parameters=unknown,
            )


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The parameters that callers see. Raises ``ConfigurationError`` where Python can't tell them."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"the signature of {function!r} can't be read; wrap it in a function with named parameters",
            function=repr(function),
        ) from error


def _stand_in(
    function: Callable[..., Any], signature: inspect.Signature, names: tuple[str, ...]
) -> Callable[..., dict[str, Any]]:
    """A function with the same parameters that returns them as a dict."""
    body = ", ".join(f"{name!r}: {name}" for name in names)
    namespace: dict[str, Any] = {}
    exec(f"def stand_in({_parameter_list(signature)}): return {{{body}}}", namespace)  # noqa: S102 - made of identifiers only
    stand_in: Any = namespace["stand_in"]
    stand_in.__name__ = getattr(function, "__name__", type(function).__name__)
    stand_in.__qualname__ = getattr(function, "__qualname__", stand_in.__name__)
    given = [p for p in signature.parameters.values() if p.default is not _Parameter.empty]
    stand_in.__defaults__ = tuple(p.default for p in given if p.kind is not _Parameter.KEYWORD_ONLY)
    stand_in.__kwdefaults__ = {p.name: p.default for p in given if p.kind is _Parameter.KEYWORD_ONLY}
    bound: Callable[..., dict[str, Any]] = stand_in
    return bound


def _parameter_list(signature: inspect.Signature) -> str:
    bare = [
        parameter.replace(
            annotation=_Parameter.empty,
            default=_Parameter.empty if parameter.default is _Parameter.empty else None,
        )
        for parameter in signature.parameters.values()
    ]
    return str(inspect.Signature(bare))[1:-1]
