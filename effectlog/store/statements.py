"""Reads the named statements of a dialect's ``queries.sql`` and its numbered migrations."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_MIGRATION = re.compile(r"^(\d{4})_[a-z]+(_[a-z]+)*\.sql$")


@cache
def statements(dialect: str) -> Mapping[str, str]:
    """The dialect's statements by name; a name that occurs twice is a packaging error."""
    text = (resources.files("effectlog.store") / dialect / "queries.sql").read_text(encoding="utf-8")
    parts = _NAME.split(text)[1:]
    names, bodies = parts[::2], parts[1::2]
    if len(set(names)) != len(names):
        raise ValueError(f"{dialect}/queries.sql names a statement twice")
    return {name: body.strip().rstrip(";") for name, body in zip(names, bodies, strict=True)}


@cache
def migrations(dialect: str) -> tuple[tuple[int, str, str], ...]:
    """The dialect's migrations as (number, file name, script), in order."""
    found = []
    for file in (resources.files("effectlog.store") / dialect).iterdir():
        match = _MIGRATION.match(file.name)
        if match:
            found.append((int(match[1]), file.name, file.read_text(encoding="utf-8")))
    return tuple(sorted(found))
