"""The stores that are open in this process, for the gauges."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from effectlog.engine import Engine

_open: list[Engine] = []


def watch(engine: Engine) -> None:
    """Offer this store's counts as gauges while it is open."""
    _open.append(engine)


def unwatch(engine: Engine) -> None:
    """The store is closed."""
    with contextlib.suppress(ValueError):
        _open.remove(engine)


def watched() -> Sequence[Engine]:
    """The open ones."""
    return tuple(_open)
