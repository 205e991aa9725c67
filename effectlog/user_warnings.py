"""Warnings that belong to no call in particular: logged, and raised away from the caller's own frames.

The invariants: a warning never fails, whatever the user's logging and warning filters are made of, and
nothing from outside in it (a destination's error, a key, a name) can steer a terminal or forge a line.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from effectlog.errors import EffectLogWarning
from effectlog.printable import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

logger = logging.getLogger("effectlog")
show_effect_keys = True
"""Whether log lines name effect keys; ``telemetry.configure(effect_keys=False)`` switches that off."""
EFFECT_KEYS = "_effect_keys"
"""A field of ``extra`` that no handler sees: a function that returns the effect keys a line may name."""
HIDDEN = "(hidden)"
_formatter = logging.Formatter()


def _handle(record: logging.LogRecord) -> None:
    """Hand a record on; what a user's filter or handler raises must not end a heartbeat, or an attempt."""
    try:
        _hide_effect_keys(record)
        _make_printable(record)
        logging.Logger.handle(logger, record)
    except Exception:
        if logging.raiseExceptions:  # As logging does where a handler of its own fails.
            traceback.print_exc()


def _hide_effect_keys(record: logging.LogRecord) -> None:
    keys: Callable[[], Iterable[str]] = vars(record).pop(EFFECT_KEYS, tuple)
    if show_effect_keys:
        return
    vars(record).pop("effect_key", None)
    message = record.getMessage()
    traced = _formatter.formatException(record.exc_info) if record.exc_info else ""
    for shown in sorted(map(repr, keys()), key=len, reverse=True):
        message, traced = message.replace(shown, HIDDEN), traced.replace(shown, HIDDEN)
    record.msg, record.args = message.replace("%", "%%"), ()
    if traced:
        record.exc_text = traced


def _make_printable(record: logging.LogRecord) -> None:
    message = record.getMessage()
    if not message.isprintable():
        record.msg, record.args = one_line(message), ()
    for name, field in list(
        vars(record).items()
    ):  # A format may show the run, the task and the effect as well.
        if isinstance(field, str) and not field.isprintable():
            setattr(record, name, one_line(field))
    if record.exc_info:
        # Where a record has its traceback as text, the formatters of logging show that one.
        record.exc_text = printable(record.exc_text or _formatter.formatException(record.exc_info))


def guard_logger() -> None:
    """Hand all records of ours on as above, from now on; called when a log is opened, and may be repeated.

    Every module of ours gets the logger by its name, so all of them are covered.
    """
    logger.handle = _handle  # type: ignore[method-assign]  # its class can't be chosen any more


_PACKAGE = f"{Path(__file__).parent}{os.sep}"


def users_level() -> int:
    """The ``stacklevel`` by which a warning given by the calling function points to the user's own line."""
    return _users_frame()[1] - 1


def users_frame() -> FrameType:
    """The nearest frame of a caller outside this package."""
    return _users_frame()[0]


def _users_frame() -> tuple[FrameType, int]:
    level = 2
    frame = sys._getframe(2)  # noqa: SLF001 - from Python 3.12 on there is skip_file_prefixes for warnings
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return frame, level


def warn(message: str, **extra: Any) -> None:
    """Log and warn. Where warnings are errors it still returns: no caller here could answer for it."""
    guard_logger()
    logger.warning("effectlog: %s", message, extra=extra)
    try:
        warnings.warn(one_line(message), EffectLogWarning, stacklevel=users_level())
    except EffectLogWarning:
        logger.debug("effectlog: the warning above was turned into an error", exc_info=True)
