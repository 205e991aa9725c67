"""What a check of a store found, by the names of the guarantees."""

from __future__ import annotations

from dataclasses import dataclass, field


class StoreNotConformant(AssertionError):
    """The store misses a guarantee that effectlog relies on; the message lists all it misses."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A guarantee that the store does not give, and what it did instead."""

    name: str
    reason: str


@dataclass(slots=True)
class Report:
    """The guarantees of a store by name: given, missing, and not checked (with the reason)."""

    store: str
    passed: list[str] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True if no guarantee is missing."""
        return not self.failed

    def raise_if_failed(self) -> None:
        """Raise StoreNotConformant, naming each missing guarantee, unless the store has them all."""
        if self.failed:
            raise StoreNotConformant(str(self))

    def __str__(self) -> str:
        head = f"{self.store}: {len(self.passed)} guarantees given, {len(self.failed)} missing"
        lines = [f"  missing: {failure.name}\n    {failure.reason}" for failure in self.failed]
        return "\n".join([head, *lines])
