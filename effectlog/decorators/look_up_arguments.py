"""How a look-up is called: with the effect's parameters, in a form chosen when the effect is declared.

Holds that choice and nothing about what an answer means. The invariant: a look-up that can't be called with
what its effect is called with is refused at decoration, and not found out when there is a doubt to answer.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from effectlog.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from effectlog.keys import Binder

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of a call."""

_KINDS = inspect.Parameter
_POSITIONAL = (_KINDS.POSITIONAL_ONLY, _KINDS.POSITIONAL_OR_KEYWORD)


class LookUpArguments:
    """The arguments of a look-up for a call of its effect: defaults applied, in the form that it takes.

    By position where no names are swapped, else by name; with ``self`` or ``cls`` where the look-up takes it.
    Raises ConfigurationError where no form fits.
    """

    def __init__(
        self, effect: str, look_up: Callable[..., Any], function: Callable[..., Any], binder: Binder
    ) -> None:
        self._binder = binder
        declared = list(inspect.signature(function).parameters.values())
        self._own = declared[1:] if binder.first else declared
        self._first = declared[0].name if binder.first else None
        self._by_name, self._with_first = self._chosen(effect, look_up)

    def arguments(self, instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        """What to call the look-up with, for a call of the effect with these."""
        return self._form(instance, self._binder.bind(args, kwargs), self._by_name, self._with_first)

    def _chosen(self, effect: str, look_up: Callable[..., Any]) -> tuple[bool, bool]:
        try:
            signature = inspect.signature(look_up)
        except (TypeError, ValueError):
            return False, False  # Written in C: what it takes shows when it is called.
        example = {p.name: _example(p) for p in self._own}
        for with_first in (True, False) if self._first else (False,):
            for by_name in (False, True):
                args, kwargs = self._form(self._first, example, by_name, with_first)
                if _fits(signature, args, kwargs):
                    return by_name, with_first
        names = ", ".join(p.name for p in self._own) or "none"
        method = f" (and, if it takes it, {self._first!r} as the first)" if self._first else ""
        raise ConfigurationError(
            f"effect {effect}: its look-up {getattr(look_up, '__qualname__', look_up)}{signature} can't be "
            f"called with the effect's parameters, which are: {names}{method}; give it the same ones"
        )

    def _form(self, instance: Any, values: Mapping[str, Any], by_name: bool, with_first: bool) -> Arguments:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        if with_first and self._first:
            args.append(instance)
        for parameter in self._own:
            value = values[parameter.name]
            if parameter.kind is _KINDS.VAR_POSITIONAL:
                args.extend(value)
            elif parameter.kind is _KINDS.VAR_KEYWORD:
                kwargs.update(value)
            elif parameter.kind in _POSITIONAL and not by_name:
                args.append(value)
            else:
                kwargs[parameter.name] = value
        return tuple(args), kwargs


def _example(parameter: inspect.Parameter) -> Any:
    """A value that shows where it arrives: the parameter's own name, or one that is in nobody's way."""
    if parameter.kind is _KINDS.VAR_POSITIONAL:
        return (f"*{parameter.name}",)
    if parameter.kind is _KINDS.VAR_KEYWORD:
        return {"_any_other": ""}
    return parameter.name


def _fits(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the call binds, and no value arrives under the name of another one."""
    try:
        arrived = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return False
    given = {*args, *kwargs}
    return not any(
        name in given and isinstance(value, str) and value != name for name, value in arrived.items()
    )
