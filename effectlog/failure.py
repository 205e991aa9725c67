"""Exceptions to stored text and back: what is kept of an error, and how a final one is raised again."""

from __future__ import annotations

import contextlib
import sys
import traceback
from typing import TYPE_CHECKING, Any, cast

from effectlog.errors import EffectFailed
from effectlog.model import ErrorInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGE_LIMIT = 4_096
"""Characters kept of an error's message."""
TRACEBACK_LIMIT = 16_384
"""Characters kept of a traceback, its end first in importance."""


def describe(error: BaseException) -> ErrorInfo:
    """An exception as text; never raises, whatever the exception's own methods do."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        message = str(error)
    except Exception:
        message = f"<{kind.__qualname__} whose text can't be made>"
    try:
        lines = "".join(traceback.format_exception(error))
    except Exception:
        lines = ""
    return ErrorInfo(storable(name), storable(message[:MESSAGE_LIMIT]), storable(lines[-TRACEBACK_LIMIT:]))


def storable(text: str) -> str:
    """Text that every store can keep: no NUL, no lone surrogate."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")


def declared_failure(
    error: ErrorInfo, declared: tuple[type[BaseException], ...], run_id: str, effect_key: str
) -> EffectFailed:
    """The exception of an effect that failed for good: an ``EffectFailed`` that is also of the declared type.

    Built without calling the declared type's ``__init__`` or ``__new__``, whose arguments nobody has stored. Where
    Python can't join or build the two, it is a plain ``EffectFailed``.
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
    # The interpreter's own types take any arguments; which of them may make this one follows from its memory layout.
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
    """The exception class of this name, if its module is imported; nothing is imported for it."""
    module, _, found = name.rpartition(".")
    kind = getattr(sys.modules.get(module), found, None)
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
