"""Exceptions to stored text and back: what is kept of an error, and how a final one is raised again."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from effectlog.errors import EffectFailed, EffectLogError
from effectlog.model import ErrorInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGE_LIMIT = 4_096
"""Characters kept of an error's message."""
TRACEBACK_LIMIT = 16_384
"""Characters kept of a traceback, its end first in importance."""

_PACKAGE = f"{Path(__file__).parent}{os.sep}"
_WRITTEN_AS_USERS_DO = f"{_PACKAGE}demo{os.sep}"


def describe(error: BaseException) -> ErrorInfo:
    """An exception as text; never raises, whatever the exception's own methods do."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        message = str(error)
    except Exception:
        message = f"<{kind.__qualname__} whose text can't be made>"
    try:
        lines = _traceback(error)
    except Exception:
        lines = ""
    return ErrorInfo(storable(name), storable(message[:MESSAGE_LIMIT]), storable(lines[-TRACEBACK_LIMIT:]))


def _traceback(error: BaseException) -> str:
    """The traceback with its causes, without the frames by which effectlog called the user's code."""
    shown = traceback.TracebackException.from_exception(error)
    for part, told in _chain(shown, error):
        part.stack[:] = _theirs(part.stack, by_us=isinstance(told, EffectLogError)) or part.stack
    original = error.__dict__.get("traceback") if isinstance(error, EffectFailed) else None
    if not original:
        return "".join(shown.format())
    # What failed comes last, where a reader looks, also on a replay, which has no cause.
    return f"{''.join(shown.format(chain=False))}\nThe effect had failed with:\n\n{original}"


def _theirs(stack: traceback.StackSummary, *, by_us: bool) -> list[traceback.FrameSummary]:
    """The frames that are not ours; those at the very end are kept, unless the error is one that we raise."""
    ours = [_is_ours(frame.filename) for frame in stack]
    end = len(stack)
    while not by_us and end and ours[end - 1]:
        end -= 1
    return [frame for i, frame in enumerate(stack) if i >= end or not ours[i]]


def _is_ours(file: str) -> bool:
    own = file.startswith(_PACKAGE) and not file.startswith(_WRITTEN_AS_USERS_DO)
    return own or f"{os.sep}wrapt{os.sep}" in file


def _chain(
    shown: traceback.TracebackException, error: BaseException
) -> Iterator[tuple[traceback.TracebackException, BaseException]]:
    """Every exception that a traceback shows, beside its text: causes, contexts, members of groups."""
    left: list[tuple[Any, Any]] = [(shown, error)]
    while left:
        part, told = left.pop()
        if part is None or told is None:
            continue
        yield part, told
        left += [(part.__cause__, told.__cause__), (part.__context__, told.__context__)]
        left += zip(part.exceptions or (), getattr(told, "exceptions", ()), strict=False)


def storable(text: str) -> str:
    """Text that every store can keep: no NUL, no lone surrogate."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")


def declared_failure(
    error: ErrorInfo, declared: tuple[type[BaseException], ...], run_id: str, effect_key: str
) -> EffectFailed:
    """The exception of an effect that failed for good: an ``EffectFailed`` that is also of the declared type.

    Built without calling the declared type's ``__init__`` or ``__new__``, whose arguments nobody has stored.
    Where Python can't join or build the two, it is a plain ``EffectFailed``.
    """
    fields = {
        "run_id": run_id,
        "effect_key": effect_key,
        "type_name": error.type,
        "message": error.message,
        "traceback": error.traceback,
    }
    plain = EffectFailed(error.message, **fields)
    try:
        failure = _built(_failure_type(_declared_type(error.type, declared)), plain)
    except Exception:  # Whatever the declared type does to its subclasses.
        return plain
    failure.__dict__.update(fields)
    return failure


def _built(kind: type[EffectFailed], plain: EffectFailed) -> EffectFailed:
    if issubclass(kind, BaseExceptionGroup):
        group: EffectFailed = BaseExceptionGroup.__new__(kind, plain.message, [plain])
        return group
    # The interpreter's own types take any arguments; which of them may make this one follows from its memory
    # layout.
    for own in kind.__mro__:
        if own.__module__ == "builtins":
            with contextlib.suppress(TypeError):
                return cast("EffectFailed", cast("Any", own).__new__(kind, plain.message))
    return plain


def _declared_type(name: str, declared: tuple[type[BaseException], ...]) -> type[BaseException]:
    for base in declared:
        for kind in (base, *_subclasses(base)):
            if name in (kind.__qualname__, f"{kind.__module__}.{kind.__qualname__}"):
                return kind
    # A group such as those of effectlog.clients.failures has no subclasses, it recognises them.
    recognised = _imported_type(name)
    if recognised is not None and issubclass(recognised, declared):
        return recognised
    return declared[0] if declared else Exception


def _imported_type(name: str) -> type[BaseException] | None:
    """The exception class of this name, if its module is imported.

    Nothing is imported for it, or asked to be.
    """
    module, _, found = name.rpartition(".")
    kind = vars(sys.modules[module]).get(found) if module in sys.modules else None
    return kind if isinstance(kind, type) and issubclass(kind, BaseException) else None


def _subclasses(base: type[BaseException]) -> Iterator[type[BaseException]]:
    for kind in type.__subclasses__(base):
        yield kind
        yield from _subclasses(kind)


def _failure_type(declared: type[BaseException]) -> type[EffectFailed]:
    if issubclass(EffectFailed, declared):
        return EffectFailed
    members = {"__str__": _message, "__reduce__": _reduce, "__module__": declared.__module__}
    return type(declared.__name__, (EffectFailed, declared), members)


def _message(self: Any) -> str:
    return str(self.message)


def _reduce(self: Any) -> tuple[Any, ...]:
    # The joined type exists in this process only, so a copy elsewhere is the plain base.
    fields = {k: v for k, v in self.__dict__.items() if isinstance(v, str)}
    return _restore, (self.message, fields)


def _restore(message: str, fields: dict[str, Any]) -> EffectFailed:
    return EffectFailed(message, **fields)
