"""The stores that the conformance suite is tried on, each a parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from effectlog.store.sqlite.store import SqliteStore
from effectlog.testing.clock import MovableClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from effectlog.store.protocol import Store


@dataclass(frozen=True)
class Checked:
    """How to open a store again and again, and what is special about it."""

    open_store: Callable[[], Awaitable[Store]]
    advance: Callable[[float], None] | None = None
    shared: bool = True


def sqlite_file(folder: Path) -> Checked:
    return _sqlite(str(folder / "effectlog.db"), shared=True)


def sqlite_memory(folder: Path) -> Checked:
    return _sqlite(":memory:", shared=False)


def _sqlite(path: str, *, shared: bool) -> Checked:
    clock = MovableClock()

    async def open_store() -> SqliteStore:
        store = SqliteStore(path, clock=clock)
        await store.open()
        return store

    return Checked(open_store, clock.advance, shared)


EMBEDDED = {"sqlite file": sqlite_file, "sqlite memory": sqlite_memory}
