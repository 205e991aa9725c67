"""Writes many rows with few statement steps.

``sqlite3`` gives up the interpreter lock at every step and has to win it back from the threads that run user
code, so a hundred single-row steps cost far more than one step over a hundred rows.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

_CHUNKS = (64, 32, 16, 8, 4, 2, 1)
"""Rows in one step, so that six steps write any remainder.

Few sizes, so that the statements stay prepared.
"""
_ROW = re.compile(r"VALUES (\((?:\?|, |[^()?])*\))")


def write_rows(connection: sqlite3.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Execute a statement with one ``VALUES (…)`` for all rows."""
    at = 0
    for size in _CHUNKS:
        while len(rows) - at >= size:
            connection.execute(_for_rows(statement, size), tuple(chain.from_iterable(rows[at : at + size])))
            at += size


@cache
def _for_rows(statement: str, rows: int) -> str:
    return _ROW.sub(lambda row: "VALUES " + ", ".join([row[1]] * rows), statement, count=1)
