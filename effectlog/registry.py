"""The tasks and effects that this process declares, by every name under which something of theirs may be stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effectlog.errors import ConfigurationError

if TYPE_CHECKING:
    from effectlog.spec import EffectSpec, TaskSpec

_registry: dict[str, TaskSpec] = {}
_effects: dict[str, EffectSpec] = {}


def register(spec: TaskSpec) -> None:
    """Make a task known in this process. The same definition may come again, as on a reload."""
    known = _registry.get(spec.name)
    if known is not None and known.source != spec.source:
        raise ConfigurationError(
            f"two functions are named {spec.name!r} as tasks, {known.source} and {spec.source}; give one of them "
            f"another name="
        )
    _registry[spec.name] = spec


def registered() -> dict[str, TaskSpec]:
    """The tasks known in this process, by stored name, aliases included."""
    found = {alias: spec for spec in _registry.values() for alias in spec.aliases}
    return {**found, **_registry}


def declare(spec: EffectSpec) -> None:
    """Make an effect known in this process."""
    _effects[spec.name] = spec


def declared_effect(name: str) -> EffectSpec | None:
    """The effect of this stored name, if this process declares it."""
    return _effects.get(name)
