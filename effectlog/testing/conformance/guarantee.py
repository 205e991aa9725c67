"""How a guarantee is written down: a name, and a function that tries it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from effectlog.testing.conformance.scratch import Bench


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One thing that a store must do. ``shared`` ones need two opens of it to see the same data."""

    name: str
    topic: str
    shared: bool
    check: Callable[[Bench], Awaitable[None]]


class Topic:
    """Guarantees about one subject, in the order in which they are written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.guarantees: list[Guarantee] = []

    def guarantee(
        self, name: str, *, shared: bool = False
    ) -> Callable[[Callable[[Bench], Awaitable[None]]], Callable[[Bench], Awaitable[None]]]:
        """Register the decorated function as the check of the guarantee ``name``."""

        def register(check: Callable[[Bench], Awaitable[None]]) -> Callable[[Bench], Awaitable[None]]:
            self.guarantees.append(Guarantee(name, self.name, shared, check))
            return check

        return register
