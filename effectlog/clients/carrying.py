"""The one place where the client helpers ask which effect they are called from.

Invariant: outside an effect every answer is ``None``, and the helpers then change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    from effectlog.contract import Destination


class Request(Protocol):
    """The request that is being made by the current effect."""

    @property
    def operation_id(self) -> str: ...
    @property
    def destination(self) -> Destination | None: ...
    @property
    def first_request_at(self) -> datetime: ...


def request() -> Request | None:
    """The current effect's request, or ``None`` outside an effect."""
    from effectlog.context import current_request  # noqa: PLC0415 - importing a helper must not load the engine

    return current_request()


def key_header(default: str | None = None) -> tuple[str, str] | None:
    """Header and value that carry the operation id, or ``None`` where there is nothing to carry.

    The header is the one of the effect's contract; ``default`` names one for effects without a contract.
    """
    current = request()
    if current is None:
        return None
    header = default if current.destination is None else _header_of(current.destination)
    return None if header is None else (header, current.operation_id)


def _header_of(contract: Destination) -> str | None:
    return contract.key_field if contract.key_in == "header" else None
