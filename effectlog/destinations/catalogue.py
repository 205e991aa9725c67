"""Finds a built-in contract by its name. Invariant: names are unique."""

from __future__ import annotations

from typing import Final

from effectlog.contract import Destination
from effectlog.destinations import messaging, payments
from effectlog.errors import ConfigurationError

ALL: Final[tuple[Destination, ...]] = tuple(
    value
    for module in (payments, messaging)
    for value in vars(module).values()
    if isinstance(value, Destination)
)
"""Every built-in contract."""

_BY_NAME: Final = {contract.name: contract for contract in ALL}


def by_name(name: str) -> Destination:
    """The built-in contract of this name, as in ``by_name("stripe/v1")``.

    Raises:
        ConfigurationError: no contract has this name; the message lists all names.

    """
    if name not in _BY_NAME:
        raise ConfigurationError(
            f"There is no built-in destination {name!r}. Built in are: {', '.join(sorted(_BY_NAME))}. "
            "For any other system make your own with Destination(name, …).",
            destination=name,
        )
    return _BY_NAME[name]
