"""What makes two calls the same operation: fingerprints of the arguments, operation ids, run ids.

Pure functions of their arguments (run ids aside), equal in every process and for every hash seed: an id
that differs after a restart would send the same thing twice.
"""

from __future__ import annotations

import os
import time
from hashlib import sha1
from typing import TYPE_CHECKING, Any
from uuid import UUID

from effectlog.codec import fingerprint
from effectlog.errors import EncodingError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Changing it would give every stored operation a new id, and so a second effect.
_NAMESPACE = UUID("3c5f0d3e-7d0b-5b8e-9a53-6d1f5b7c2e90").bytes
# Copied for each id: that takes half of the time of a new one.
_hash = sha1(_NAMESPACE, usedforsecurity=False)
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def fingerprints(arguments: Mapping[str, Any], ignore: frozenset[str], *, owner: str) -> dict[str, str]:
    """One fingerprint a parameter, without the ignored ones; ``owner`` is the function's name in errors.

    Raises ``EncodingError`` naming function, parameter, type and ``ignore=`` for a value that has none.
    """
    prints: dict[str, str] = {}
    for name, value in arguments.items():
        if name in ignore:
            continue
        try:
            prints[name] = fingerprint(value, root=name)
        except EncodingError as error:
            raise EncodingError(
                f"{owner}: its argument {name!r} can't be told from another one: {error}."
                f" If it doesn't belong to the operation, declare ignore=({name!r},)",
                **(vars(error) | {"function": owner, "parameter": name}),
            ) from None
    return prints


def differing(stored: Mapping[str, str], given: Mapping[str, str], defaults: Mapping[str, str]) -> list[str]:
    """The parameters whose fingerprints differ; one that a side lacks counts as its default there."""
    names = dict.fromkeys((*given, *stored))
    return [
        name for name in names if stored.get(name, defaults.get(name)) != given.get(name, defaults.get(name))
    ]


def operation_id(run_id: str, key: str, generation: int = 0) -> str:
    """The stable id of one operation, 36 characters, to be sent as the destination's idempotency key.

    It depends on run, key and generation only, so every attempt on every worker sends the same one.
    """
    name = f"{len(run_id)}:{run_id}{len(key)}:{key}{generation}"
    mixed = _hash.copy()
    mixed.update(name.encode())
    digits = mixed.hexdigest()
    # Spelled out, because ``str(uuid5(...))`` says the same in ten times the time.
    parts = (
        digits[:8],
        digits[8:12],
        "5" + digits[13:16],
        _VARIANT[digits[16]] + digits[17:20],
        digits[20:32],
    )
    return "-".join(parts)


def new_run_id() -> str:
    """A new UUIDv7 (RFC 9562), 36 characters; ids sort by their time, to a quarter microsecond."""
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    fraction = (rest << 12) // 1_000_000
    random = int.from_bytes(os.urandom(8)) & (2**62 - 1) | 2 << 62
    digits = f"{milliseconds & (2**48 - 1):012x}7{fraction:03x}{random:016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
