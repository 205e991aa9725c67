"""What a decorator may know of the callable it is given: its name, its kind, whether it is async."""

from __future__ import annotations

import functools
import inspect
import sys
from pathlib import Path
from typing import Any

from effectlog.errors import ConfigurationError

_MAIN = ("__main__", "__mp_main__")
"""The module of a script: in its own process, and in those that ``multiprocessing`` spawns."""


def plain(function: Any) -> Any:
    """The function inside a classmethod or staticmethod."""
    return function.__func__ if isinstance(function, classmethod | staticmethod) else function


def annotated(function: Any) -> Any:
    """What carries a callable's annotations: a partial's function, an object's ``__call__``, else itself."""
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        function = inspect.unwrap(function.func)
    if inspect.isroutine(function) or isinstance(function, type):
        return function
    return type(function).__call__


def short_name(function: Any) -> str:
    """A callable's ``__name__``; else that of a partial's function, or of an object's class."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__)


def is_async(function: Any) -> bool:
    """Whether calling it returns a coroutine: also for partials and objects with an async ``__call__``."""
    function = plain(function)
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - its kind is asked, not whether it can be called
    )


def refuse_generator(function: Any, decorator: str) -> None:
    """Raise TypeError for what yields: its result would be the generator, not what it yields."""
    function = plain(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{decorator} can't decorate the generator function {qualified_name(function)}: its values could "
            "not be recorded as one result; collect them and return a list"
        )


def refuse_uncallable(function: Any, decorator: str) -> None:
    if isinstance(function, classmethod | staticmethod) or callable(function):
        return
    raise ConfigurationError(f"{decorator} decorates functions, and was given {type(function).__qualname__}")


def qualified_name(function: Any) -> str:
    """``module.Qualified.name``; a script's functions carry the name that importing it would give them."""
    function = plain(function)
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", type(function).__qualname__)
    module = getattr(function, "__module__", None) or type(function).__module__
    return f"{_script_module() if module in _MAIN else module}.{name}"


def _script_module() -> str:
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else "__main__"


def refuse_subclass(method: Any) -> None:
    """Raise ConfigurationError for an inherited class method: only the base class's name would be stored."""
    owner = getattr(method, "__self__", None)
    if not isinstance(owner, type):
        return
    declared_in = method.__qualname__.rpartition(".")[0]
    if owner.__qualname__ != declared_in:
        raise ConfigurationError(
            f"{owner.__qualname__}.{method.__name__} is inherited: a run is stored by the task's name alone "
            f"and would be executed on {declared_in}; declare the task in {owner.__qualname__}, or make it a "
            "static method that takes what differs"
        )
