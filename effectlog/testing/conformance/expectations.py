"""What a guarantee expects, and the words of its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from effectlog.store.commands import Refused

if TYPE_CHECKING:
    from effectlog.store.commands import Outcome, Refusal

T = TypeVar("T")


class GuaranteeBroken(AssertionError):
    """The store did not do what the guarantee says."""


def expect(condition: object, otherwise: str) -> None:
    """Break the guarantee unless the condition holds."""
    if not condition:
        raise GuaranteeBroken(otherwise)


def equal(actual: object, wanted: object, what: str) -> None:
    """Break the guarantee unless both are equal."""
    if actual != wanted:
        raise GuaranteeBroken(f"{what} is {actual!r}, and should be {wanted!r}")


def expect_refused(outcome: Outcome, *reasons: Refusal) -> Refused:
    """Break the guarantee unless the command was refused for one of these reasons."""
    if not isinstance(outcome, Refused):
        raise GuaranteeBroken(f"it was accepted ({type(outcome).__name__}) and should have been refused")
    if reasons and outcome.reason not in reasons:
        wanted = " or ".join(f"'{reason}'" for reason in reasons)
        raise GuaranteeBroken(f"it was refused as '{outcome.reason}' and should have been as {wanted}")
    return outcome


def accepted(outcome: Outcome, kind: type[T]) -> T:
    """The outcome as the kind it should be; anything else breaks the guarantee."""
    if not isinstance(outcome, kind):
        raise GuaranteeBroken(f"a {kind.__name__} was expected, and {outcome!r} came back")
    return outcome
