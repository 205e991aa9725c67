"""The tasks and effects that this process declares, by every name that a row may hold."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from effectlog.decorators.definition import Known
from effectlog.decorators.holders import would_outlive
from effectlog.decorators.spec import EffectSpec, TaskSpec
from effectlog.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from effectlog.decorators.definition import Definition

Spec = TypeVar("Spec", TaskSpec, EffectSpec)


class _Names(Generic[Spec]):
    """Declarations by stored name, one function a name."""

    def __init__(self, kind: str) -> None:
        self.specs: dict[str, Spec] = {}
        self._kind = kind
        self._known: dict[str, Known] = {}

    def check(self, name: str, definition: Definition, dropped: list[TaskSpec | EffectSpec]) -> None:
        """Raise ConfigurationError if the name means another function.

        One that is held by nothing but the registry, itself or through those of ``dropped``, means nothing
        any more.
        """
        known = self._known.get(name)
        if known is None or known.may_be_replaced(definition):
            return
        if all(spec is not self.specs[name] for spec in dropped):
            dropped.append(self.specs[name])
        if not known.where.is_same(definition.where) or would_outlive(known.definition, dropped):
            raise known.conflict(self._kind, name, definition)

    def add(self, spec: Spec, definition: Definition) -> None:
        self.specs[spec.name] = spec
        self._known[spec.name] = Known(definition)

    def beside(self, definition: Definition) -> list[Spec]:
        """Those that the same call of an enclosing function may have made."""
        return [
            self.specs[name] for name, known in self._known.items() if known.where.is_beside(definition.where)
        ]

    def known(self, name: str) -> Known:
        return self._known[name]


_tasks = _Names[TaskSpec]("tasks")
_effects = _Names[EffectSpec]("effects")
_one_at_a_time = threading.Lock()


def register(spec: TaskSpec, definition: Definition) -> None:
    """Make a task known in this process.

    Raises ConfigurationError where another function has one of its names.
    """
    with _one_at_a_time:
        # Workers execute the tasks beside it, held or not, and those may enqueue it by its name.
        _tasks.check(spec.name, definition, [*_effects.beside(definition)])
        _check_aliases(spec, definition)
        _tasks.add(spec, definition)


def registered() -> Mapping[str, TaskSpec]:
    """The tasks known in this process, by stored name, aliases included."""
    specs = dict(_tasks.specs)
    found = {alias: spec for spec in specs.values() for alias in spec.aliases}
    return {**found, **specs}


def declare(spec: EffectSpec, definition: Definition) -> None:
    """Make an effect known in this process. Raises ConfigurationError where another function has its name."""
    with _one_at_a_time:
        _effects.check(spec.name, definition, [*_tasks.beside(definition), *_effects.beside(definition)])
        _effects.add(spec, definition)


def declared_effect(name: str) -> EffectSpec | None:
    """The effect of this stored name, if this process declares it."""
    return _effects.specs.get(name)


def _check_aliases(spec: TaskSpec, definition: Definition) -> None:
    for other in _tasks.specs.values():
        both = set(spec.aliases) & set(other.aliases)
        if not both or other.name in spec.names or spec.name in other.aliases:
            continue  # One of them was renamed to the other, and has what it had.
        known = _tasks.known(other.name)
        if known.where.is_same(definition.where) and not would_outlive(known.definition, [other]):
            continue  # It was dropped.
        raise ConfigurationError(
            f"tasks {other.name!r} ({known.where}) and {spec.name!r} ({definition.where}) both have the "
            f"alias {min(both)!r}, so one would execute the other's runs; leave it to one of them"
        )
