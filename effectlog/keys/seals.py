"""Fingerprints as rows keep them: sealed, so that equal values of two runs don't look alike.

The run's id alone is no secret: whoever has the row can still try every small value. With a secret, the rows
alone are not enough for that. A row names what sealed it under ``""``, which no parameter is called; a row
without that name is older and has bare fingerprints. The invariant: fingerprints are compared only in the
row's own form.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from effectlog.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SEALED_BY = ""
_RUN = "run"
_BYTES = 12


class OtherSecretError(ConfigurationError):
    """A row's fingerprints were sealed with a secret that this log lacks, so nothing can be compared."""


class Seals:
    """Seals fingerprints with the first of the secrets, or without any; reads what any of them sealed."""

    def __init__(self, *secrets: bytes) -> None:
        keyed = [(f"secret {_hash(secret, b'name').hexdigest()[:8]}", _hash(secret)) for secret in secrets]
        self._hashes = {_RUN: blake2b(digest_size=_BYTES), **dict(keyed)}
        self._name = keyed[0][0] if keyed else _RUN

    def seal(self, prints: Mapping[str, str], run_id: str) -> dict[str, str]:
        """The fingerprints of one call as a new row of this run is to keep them."""
        return self._sealed(self._name, prints, run_id) if prints else {}

    def like(self, stored: Mapping[str, str], prints: Mapping[str, str], run_id: str) -> dict[str, str]:
        """The fingerprints of another call in the form of the stored ones.

        Raises OtherSecretError where it has none.
        """
        name = stored.get(SEALED_BY)
        if name is None:
            return dict(prints)
        if name not in self._hashes:
            raise OtherSecretError(
                f"the arguments of run {run_id} were fingerprinted with another secret ({name}), so it "
                "can't be told whether these are the same. Open the log with that fingerprint_secret=, or "
                "with a tuple of the new secret and that one",
                run_id=run_id,
            )
        return self._sealed(name, prints, run_id)

    def _sealed(self, name: str, prints: Mapping[str, str], run_id: str) -> dict[str, str]:
        of_run = self._hashes[name].copy()
        of_run.update(run_id.encode())
        sealed = {SEALED_BY: name}
        for parameter, bare in prints.items():
            mixed = of_run.copy()
            mixed.update(f"\0{parameter}\0{bare}".encode())
            sealed[parameter] = mixed.hexdigest()
        return sealed


def shown(prints: Mapping[str, str]) -> dict[str, str]:
    """What people are shown of a row's fingerprints."""
    return {parameter: value for parameter, value in prints.items() if parameter != SEALED_BY}


def seals_of(given: Any) -> Seals:
    """As ``EffectLog(fingerprint_secret=)`` was given: a secret, several, or None.

    Raises ConfigurationError.
    """
    return Seals(*_secrets(given))


def _secrets(given: Any) -> Iterator[bytes]:
    for secret in given if isinstance(given, tuple | list) else () if given is None else (given,):
        if not isinstance(secret, str | bytes) or not secret:
            raise ConfigurationError(
                "EffectLog(fingerprint_secret=…): give text or bytes, such as of secrets.token_hex(32), or "
                f"a tuple of them, not an empty one or a {type(secret).__qualname__}"
            )
        yield secret.encode() if isinstance(secret, str) else secret


def _hash(secret: bytes, message: bytes = b"") -> Any:
    key = blake2b(secret, digest_size=32).digest()  # Of any length; a key may have 64 bytes at most.
    return blake2b(message, key=key, digest_size=_BYTES)
