"""Which function a stored name means: where it was defined, and whether anybody still holds it.

A stored name finds one function. Two that share it would be executed for each other, so the second is
refused, unless it is the same one again: reloaded, run again in a notebook, or imported beside the script
that it stands in.
"""

from __future__ import annotations

import inspect
import weakref
from pathlib import Path
from typing import Any

from effectlog.decorators.functions import plain, qualified_name
from effectlog.errors import ConfigurationError
from effectlog.user_warnings import users_frame


class Definition:
    """One decorated function, held by whatever was made of it: once nobody holds it, nobody can mean it."""

    __slots__ = ("__weakref__", "code", "is_global", "where")

    def __init__(self, function: Any) -> None:
        code = getattr(inspect.unwrap(plain(function)), "__code__", None)
        frame = (
            users_frame() if code is None else None
        )  # A partial, an object: it stands where it was decorated.
        self.code: object = code if frame is None else frame.f_code
        """The same object for every function that one ``def`` makes, and another one after a reload."""
        self.where = Place(qualified_name(function), *_position(self.code))
        self.is_global = "<" not in self.where.name if frame is None else frame.f_code.co_name == "<module>"
        """A reload puts another function in its place. Others have ``<locals>`` or ``<lambda>`` in their
        name."""


class Place:
    """Where a function stands, for people and for comparison."""

    __slots__ = ("file", "line", "name")

    def __init__(self, name: str, file: str, line: int) -> None:
        self.name = name
        self.file = file
        self.line = line

    def __str__(self) -> str:
        return f"{self.name} ({self.file}:{self.line})" if self.file else self.name

    def is_same(self, other: Place) -> bool:
        return (self.name, self.file) == (other.name, other.file)

    def is_beside(self, other: Place) -> bool:
        """Both stand directly in one function."""
        scope, inside, _ = self.name.rpartition(".<locals>.")
        return bool(inside) and (scope, inside, self.file) == (
            *other.name.rpartition(".<locals>.")[:2],
            other.file,
        )


def _position(code: Any) -> tuple[str, int]:
    """The file behind all links, and the line; none for what was typed in.

    A notebook's kernel compiles every version of a cell under another file name, none of which exists.
    """
    if not Path(code.co_filename).exists():
        return "", 0
    return str(Path(code.co_filename).resolve()), code.co_firstlineno


class Known:
    """What the registry keeps of a definition: enough to compare another one with it."""

    __slots__ = ("definition", "where")

    def __init__(self, definition: Definition) -> None:
        self.definition = weakref.ref(definition)
        self.where = definition.where

    @property
    def in_use(self) -> bool:
        """Somebody holds what was made of it, and means this function by its name."""
        return self.definition() is not None

    def may_be_replaced(self, new: Definition) -> bool:
        """Whether ``new`` is the same function again: reloaded, run again, or imported beside its script."""
        old = self.definition()
        return self.where.is_same(new.where) and (
            old is None or old is new or (new.is_global and old.code is not new.code)
        )

    def conflict(self, kind: str, stored: str, new: Definition) -> ConfigurationError:
        """The error for a name that means two functions."""
        if not self.where.is_same(new.where):
            return ConfigurationError(
                f"two functions are named {stored!r} as {kind}, {self.where} and {new.where}; give one of "
                "them another name="
            )
        return ConfigurationError(
            f"two functions are named {stored!r} as {kind}, both made at {new.where} and both in use, so one "
            "would be executed for the other; give each another name=, and functools.wraps to a decorator "
            "that returns a function of its own"
        )
