"""Reads the named statements of a dialect's ``queries.sql`` and its numbered migrations.

A list of columns that several statements share stands once, as an include: ``-- include: run_columns`` names
it, and ``{run_columns}`` stands for it in a statement.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PART = re.compile(r"^-- (name|include): (\w+)$", re.MULTILINE)
_MIGRATION = re.compile(r"^(\d{4})_[a-z]+(_[a-z]+)*\.sql$")

UNRELEASED = 100
"""The highest number that a schema from before the first release can have.

Released migrations count on from it, in
the store only, so that a build from before the release refuses a store of today as newer than itself.
"""


@cache
def statements(dialect: str) -> Mapping[str, str]:
    """The dialect's statements by name, includes put in; a name that occurs twice is a packaging error."""
    includes = _parts(dialect, "include")
    return {name: _with_includes(text, includes) for name, text in _parts(dialect, "name").items()}


def _with_includes(text: str, includes: Mapping[str, str]) -> str:
    for name, include in includes.items():
        text = text.replace(f"{{{name}}}", include)
    return text


@cache
def columns_in(dialect: str, include: str) -> tuple[str, ...]:
    """The columns that an include lists, in order."""
    return tuple(column.strip() for column in _parts(dialect, "include")[include].split(","))


@cache
def _parts(dialect: str, wanted: str) -> Mapping[str, str]:
    text = (resources.files("effectlog.store") / dialect / "queries.sql").read_text(encoding="utf-8")
    _, *pieces = _PART.split(text)
    found = [
        (name, body.strip().rstrip(";"))
        for kind, name, body in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True)
        if kind == wanted
    ]
    parts = dict(found)
    if len(parts) != len(found):
        raise ValueError(f"{dialect}/queries.sql has two parts of one name")
    return parts


@cache
def migrations(dialect: str) -> tuple[tuple[int, str, str], ...]:
    """The dialect's migrations as (number in the store, file name, script), in order."""
    found = []
    for file in (resources.files("effectlog.store") / dialect).iterdir():
        match = _MIGRATION.match(file.name)
        if match:
            found.append((UNRELEASED + int(match[1]), file.name, file.read_text(encoding="utf-8")))
    return tuple(sorted(found))


def schema_refusal(applied: int, newest: int, name: str) -> str | None:
    """Return why a store at ``applied`` can't be used by an effectlog that knows ``newest``, if so."""
    if 0 < applied <= UNRELEASED:
        return (
            f"{name} was made by an effectlog from before its first release (schema {applied}), and this one "
            f"can't "
            f"read it; finish its runs with the effectlog that made it, and let this one begin with another "
            f"file or "
            f"schema"
        )
    if applied > newest:
        return (
            f"{name} was written by a newer effectlog (schema {applied}, this one knows {newest}); upgrade "
            f"effectlog here"
        )
    return None
