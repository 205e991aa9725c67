"""The stores that are open in this process, for the gauges."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Health: TypeAlias = Callable[[float], dict[str, Any]]
"""Returns what a store says of itself, waiting for at most the given seconds."""

_open: list[tuple[str, Health]] = []


def watch(store: str, health: Health) -> None:
    """Offer the counts of the store of this name as gauges while it is open."""
    _open.append((store, health))


def unwatch(store: str, health: Health) -> None:
    """The store is closed."""
    with contextlib.suppress(ValueError):
        _open.remove((store, health))


def watched() -> Sequence[tuple[str, Health]]:
    """The open ones."""
    return tuple(_open)
