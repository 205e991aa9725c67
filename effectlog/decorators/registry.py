"""The tasks and effects that this process declares, by every name that a row may hold."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Generic, TypeVar

from effectlog.decorators.definition import Known
from effectlog.decorators.spec import EffectSpec, TaskSpec

if TYPE_CHECKING:
    from effectlog.decorators.definition import Definition

Spec = TypeVar("Spec", TaskSpec, EffectSpec)


class _Names(Generic[Spec]):
    """Declarations by stored name, one function a name."""

    def __init__(self, kind: str) -> None:
        self.specs: dict[str, Spec] = {}
        self._kind = kind
        self._known: dict[str, Known] = {}

    def add(self, spec: Spec, definition: Definition) -> None:
        known = self._known.get(spec.name)
        if (
            known is not None
            and not known.may_be_replaced(definition)
            and not self._let_go(known, spec.name, definition)
        ):
            raise known.conflict(self._kind, spec.name, definition)
        self.specs[spec.name] = spec
        self._known[spec.name] = Known(definition)

    def _let_go(self, known: Known, name: str, new: Definition) -> bool:
        """Forget a function of the same place that only this registry and its own closure hold."""
        if not known.where.is_same(new.where):
            return False
        spec = weakref.ref(self.specs.pop(name))
        gc.collect()
        if (held := spec()) is not None:
            self.specs[name] = held
        return held is None or not known.in_use


_tasks = _Names[TaskSpec]("tasks")
_effects = _Names[EffectSpec]("effects")


def register(spec: TaskSpec, definition: Definition) -> None:
    """Make a task known in this process. Raises ConfigurationError where another function has its name."""
    _tasks.add(spec, definition)


def registered() -> dict[str, TaskSpec]:
    """The tasks known in this process, by stored name, aliases included."""
    found = {alias: spec for spec in _tasks.specs.values() for alias in spec.aliases}
    return {**found, **_tasks.specs}


def declare(spec: EffectSpec, definition: Definition) -> None:
    """Make an effect known in this process. Raises ConfigurationError where another function has its name."""
    _effects.add(spec, definition)


def declared_effect(name: str) -> EffectSpec | None:
    """The effect of this stored name, if this process declares it."""
    return _effects.specs.get(name)
