"""Text from outside, as it may be shown: keys, names and errors must not steer a terminal. Leaf module.

Stored text is kept as it is; whatever shows or logs it makes it printable, at the last moment.
"""

from __future__ import annotations


def printable(text: object) -> str:
    """The text with escapes instead of control characters and lone surrogates; its lines stay lines."""
    return "\n".join(map(_escaped, str(text).split("\n")))


def one_line(text: object) -> str:
    """The same in one line, so that no text can pass for a line of somebody else's."""
    return _escaped(" ".join(str(text).split()))


def _escaped(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in line
    )
