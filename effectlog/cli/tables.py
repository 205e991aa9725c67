"""Text for a terminal: tables that fit its width, ages, words of commands to paste. Leaf module."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from effectlog.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_GAP = "  "
_NARROWEST = 12


def width() -> int:
    """Columns of the terminal; 100 where there is none."""
    return max(60, shutil.get_terminal_size((100, 24)).columns)


def shell_word(text: str) -> str:
    """Text as one word of a command to paste: printable, and to a shell exactly that text."""
    if text.isprintable():
        return shlex.quote(text)
    # Bash, zsh and ksh read these escapes; byte by byte, so that no locale changes what they mean.
    return "$'" + "".join(char if char.isprintable() else _bytes(char) for char in _quoted(text)) + "'"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _bytes(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))


def shortened(text: str, limit: int) -> str:
    """The text, cut with an ellipsis where it is longer than ``limit``."""
    return text if len(text) <= limit else text[: max(1, limit - 1)] + "…"


def ago(moment: datetime, now: datetime | None = None) -> str:
    """How long ago it was, or how far ahead it is, in one unit: ``3 min ago``, ``in 5 s``."""
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    return f"in {span(-seconds)}" if seconds < 0 else f"{span(seconds)} ago"


def span(seconds: float) -> str:
    """A duration in the largest unit that fits."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def moment(at: datetime | None) -> str:
    """A time as people read it, always in UTC."""
    return "-" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def counted(count: int, noun: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size(count: int) -> str:
    """Bytes in the unit that people read."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:  # noqa: PLR2004 - what a KiB is
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column; a flexible one is cut where the table is too wide."""

    title: str
    flexible: bool = False
    right: bool = False


def table(columns: Sequence[Column], rows: Iterable[Sequence[Any]], *, indent: str = "") -> str:
    """Rows under their titles, no line wider than the terminal as long as something flexible can give way."""
    cells = [[one_line("" if cell is None else cell) for cell in row] for row in rows]
    widths = [max([len(column.title), *(len(row[i]) for row in cells)]) for i, column in enumerate(columns)]
    _fit(columns, widths, width() - len(indent))
    lines = [[column.title for column in columns], *cells]
    return "\n".join(indent + _line(columns, widths, line) for line in lines)


def _fit(columns: Sequence[Column], widths: list[int], room: int) -> None:
    """Take what is too much from the widest flexible column, one character after the other."""
    flexible = [i for i, column in enumerate(columns) if column.flexible]
    for i in flexible:
        widths[i] = min(widths[i], room)  # No step for each character of a value that takes megabytes.
    while sum(widths) + len(_GAP) * (len(widths) - 1) > room:
        widest = max(flexible, key=lambda i: widths[i], default=None)
        if widest is None or widths[widest] <= _NARROWEST:
            return
        widths[widest] -= 1


def _line(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str]) -> str:
    parts = [
        f"{shortened(cell, wide):{'>' if column.right else '<'}{wide}}"
        for column, wide, cell in zip(columns, widths, cells, strict=True)
    ]
    return _GAP.join(parts).rstrip()
