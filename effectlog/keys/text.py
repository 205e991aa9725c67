"""Text that names something for good: it must be the same in every store, or be refused before one is asked."""

from __future__ import annotations

from effectlog.errors import ConfigurationError

LONGEST_NAME = 512
"""Characters of a key or name at most."""


def check_name(what: str, text: object) -> str:
    """The text itself; raises ConfigurationError, beginning with ``what``, for one that no store can keep as it is."""
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST_NAME:
        raise ConfigurationError(f"{what} is a text of 1 to {LONGEST_NAME} characters, not {text!r}")
    if not is_storable(text):
        raise ConfigurationError(f"{what} has a NUL or a lone surrogate, which no database stores: {text!r}")
    return text


def is_storable(text: str) -> bool:
    """Whether databases can keep the text: PostgreSQL knows no NUL, and UTF-8 no lone surrogate."""
    if "\x00" in text:
        return False
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False
