"""The built-in codec over the tagged form, the protocol for other codecs, and fingerprints.

msgspec reads and writes the JSON because it is several times faster than the standard library here; text
outside ASCII is written by the standard library, which can escape it.
"""

from __future__ import annotations

from hashlib import blake2b
from json.encoder import encode_basestring_ascii
from typing import Any, Protocol

import msgspec

from effectlog.codec.decode import Untagger
from effectlog.codec.encode import LARGEST, SMALLEST, Tagger, to_ascii, to_sorted_ascii
from effectlog.codec.refusal import RefusalError, type_name
from effectlog.errors import DecodingError, EncodingError

_FINGERPRINT_BYTES = 12
_hash = blake2b(digest_size=_FINGERPRINT_BYTES)
_TAG_BYTES = b'{"!":'  # inside text the quotes would be escaped, so this is always a tag

_write = msgspec.json.Encoder().encode
_read = msgspec.json.Decoder().decode
_stored = Tagger(canonical=False)
_canonical = Tagger(canonical=True)


class Codec(Protocol):
    """How a log turns arguments and results into bytes. Pass one's own as ``EffectLog(codec=...)``.

    ``decode(encode(value))`` must return an equal value of the same types, in any process that runs the
    same code, and rows written by earlier releases of the codec must stay readable.
    """

    def encode(self, value: object) -> bytes:
        """The stored form. Raises ``EncodingError`` for a value that would not come back as it is."""
        ...

    def decode(self, data: bytes, annotation: Any = None) -> Any:
        """The value. ``annotation`` is the type it was declared with. Raises ``DecodingError``."""
        ...


class JsonCodec:
    """The built-in codec: tagged, ASCII-only JSON that never downgrades a type silently."""

    def encode(self, value: object, *, root: str = "result") -> bytes:
        """ASCII JSON bytes; a value of another type than listed in ``codec/tags.py`` is refused.

        Raises ``EncodingError`` naming the path, which begins with ``root``, the type and the remedy.
        """
        try:
            tagged = _stored.tag(value)
            data = _write(tagged)
            return data if data.isascii() else to_ascii(tagged).encode("ascii")
        except Exception as error:
            raise _encoding_error(error, value, root) from None

    def decode(self, data: bytes, annotation: Any = None) -> Any:
        """The value as it was encoded; ``annotation`` is searched first for the classes it names.

        Raises ``DecodingError``, and nothing else, for damaged bytes, and for a class that can't be found
        or no longer fits what was stored.
        """
        try:
            node = _read(data)
            return Untagger(annotation).untag(node) if _TAG_BYTES in data else node
        except RefusalError as refusal:
            raise DecodingError(
                f"a stored {refusal.type_name} can't be rebuilt: {refusal.reason} (at value{refusal.path})",
                path=refusal.path,
                type_name=refusal.type_name,
            ) from None
        except Exception as error:
            raise DecodingError(
                f"stored bytes can't be read as a value, they may be damaged: {error}",
                path="",
                type_name="value",
                damaged=True,
            ) from error


def encode_as(codec: Codec, value: object, root: str) -> bytes:
    """``codec.encode(value)``, whose error calls the value ``root``.

    Another codec than ours has its own words.
    """
    return codec.encode(value, root=root) if type(codec) is JsonCodec else codec.encode(value)


def fingerprint(value: object, *, root: str = "value") -> str:
    """24 hexadecimal digits that are equal for equal values, in every process and release.

    The order of sets and dicts, the hash seed and a class's module don't matter; types do (``1``, ``1.0``,
    ``True`` and ``"1"`` differ). Raises ``EncodingError`` for what has no stable form.
    """
    try:
        # The first two return what the walk would, in a quarter of the time.
        if type(value) is str and value.isascii():
            canonical = encode_basestring_ascii(value)
        elif type(value) is int and SMALLEST <= value <= LARGEST:
            canonical = str(value)
        else:
            canonical = to_sorted_ascii(_canonical.tag(value))
    except Exception as error:
        raise _encoding_error(error, value, root) from None
    mixed = _hash.copy()  # In half of the time of a new one.
    mixed.update(canonical.encode("ascii"))
    return mixed.hexdigest()


def _encoding_error(error: Exception, value: object, root: str) -> EncodingError:
    refused = error if isinstance(error, RefusalError) else RefusalError(str(error), type_name(type(value)))
    if isinstance(error, RecursionError):
        refused.reason = "the call stack is too deep to encode it here"
    return EncodingError(
        f"{root}{refused.path} of type {refused.type_name} can't be stored; {refused.reason}",
        path=refused.path,
        type_name=refused.type_name,
    )
