"""Which header carries the key of the effect that the running code belongs to.

Invariant: outside an effect there is no key, and the client helpers then change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from effectlog.context import current_request

if TYPE_CHECKING:
    from effectlog.contract import Destination


def key_header(default: str | None = None) -> tuple[str, str] | None:
    """Header and value that carry the operation id, or ``None`` where there is nothing to carry.

    The header is the one of the effect's contract; ``default`` names one for effects without a contract.
    """
    request = current_request()
    if request is None:
        return None
    header = default if request.destination is None else _header_of(request.destination)
    return None if header is None else (header, request.operation_id)


def _header_of(contract: Destination) -> str | None:
    return contract.key_field if contract.key_in == "header" else None
