"""Values to stored bytes and back, exactly or not at all.

What is written: ASCII-only JSON. Plain text, 64-bit integers, finite floats, booleans, null, lists and
dicts with text keys are plain JSON that people can read; everything else is an object whose first member
is ``"!"`` and names its kind (``codec/tags.py`` lists them). The invariant: ``decode(encode(value))`` has
the same types and the same content as ``value``, or ``encode`` raises ``EncodingError``. Nothing is
pickled, no module is imported and no code of a stored name's choosing runs while decoding.
"""

from __future__ import annotations

from effectlog.codec.classes import register
from effectlog.codec.convert import convert, return_annotation
from effectlog.codec.json_codec import Codec, JsonCodec, encode_as, fingerprint

__all__ = ["Codec", "JsonCodec", "convert", "encode_as", "fingerprint", "register", "return_annotation"]
