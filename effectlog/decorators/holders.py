"""Whether anything but the registry holds a declaration: what a collection would find once the registry lets go.

Nothing is taken out of the registry to find out, so other threads look names up meanwhile. Where it can't tell, it
says that something does.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import weakref

_LINKS = (
    types.FunctionType,
    types.MethodType,
    types.CellType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    tuple,
    dict,
    staticmethod,
    classmethod,
    functools.partial,
    property,
)
"""Besides our own objects, what leads from a function to what it closes over."""


def would_outlive(target: weakref.ref[Any], registered: list[Any]) -> bool:
    """Whether the target lives on without the registry's one reference to each of ``registered``.

    The collector's own way: what is referred to more often than from inside the graph is held from outside
    it.
    """
    gc.collect()
    found = _reachable(registered)
    held = {key: sys.getrefcount(found[key]) - _OWN_REFERENCES for key in found}
    for root in registered:
        held[id(root)] -= 2  # The registry's, and the list's.
    for key in found:
        for other in gc.get_referents(found[key]):
            if id(other) in held:
                held[id(other)] -= 1
    alive = [key for key, count in held.items() if count > 0]
    seen = set(alive)
    while alive:
        for other in gc.get_referents(found[alive.pop()]):
            if id(other) in held and id(other) not in seen:
                seen.add(id(other))
                alive.append(id(other))
    sought = id(target())
    return target() is not None and (sought not in held or sought in seen)


def _reachable(roots: list[Any]) -> dict[int, Any]:
    found: dict[int, Any] = {}
    shared: set[int] = set()
    waiting = list(roots)
    while waiting:
        one = waiting.pop()
        if id(one) in found or id(one) in shared:
            continue
        found[id(one)] = one
        if isinstance(one, types.FunctionType):
            shared |= {id(one.__globals__), id(getattr(one, "__builtins__", None))}
        waiting += [other for other in gc.get_referents(one) if _leads_on(other)]
    return found


def _leads_on(one: Any) -> bool:
    kind = type(one)
    if kind in _LINKS or kind.__module__.startswith(("effectlog.decorators.", "effectlog.keys.")):
        return True
    return kind is type and "<locals>" in one.__qualname__


def _own_references() -> int:
    """How many references this module's way of counting adds by itself."""
    alone = {0: object()}
    return sys.getrefcount(alone[0])


_OWN_REFERENCES = _own_references()
