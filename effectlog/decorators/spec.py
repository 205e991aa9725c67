"""What the decorators declare, as data: the facts about one effect function or one task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable

    from effectlog.contract import Destination
    from effectlog.decorators.look_up_arguments import LookUpArguments
    from effectlog.keys import KeyTemplate
    from effectlog.model import Policy
    from effectlog.retry import Retry


class Annotation:
    """A function's annotations, resolved when a value is first at hand: a class may be defined below it."""

    __slots__ = ("_function", "_resolve", "_value")

    def __init__(self, function: Callable[..., Any], resolve: Callable[[Callable[..., Any]], Any]) -> None:
        self._function = function
        self._resolve: Callable[[Callable[..., Any]], Any] | None = resolve
        self._value: Any = None

    @property
    def value(self) -> Any:
        if self._resolve is not None:
            self._value = self._resolve(self._function)
            self._resolve = None
        return self._value


ErrorTypes = tuple[type[BaseException], ...]


class EffectSpec(Struct, frozen=True, weakref=True):
    """One ``@effect`` declaration."""

    name: str
    is_async: bool
    returns: Annotation
    policy: Policy
    declared_doubt: bool = False
    """``in_doubt=`` was given, so the policy is its author's and not the default."""
    look_up: Callable[..., Any] | None = None
    look_up_arguments: LookUpArguments | None = None
    """What the look-up is called with."""
    lookup_budget: float = 300.0
    destination: Destination | None = None
    destination_json: str | None = None
    retry: Retry | None = None
    timeout: float | None = None
    not_applied: ErrorTypes = ()
    final: ErrorTypes = ()
    ignore: frozenset[str] = frozenset()
    transactional: bool = False
    """Its writes commit together with its completed record, in a transaction that the store opens."""


class EffectCall(Struct, frozen=True, gc=False):
    """One call of an effect inside an attempt: its key, its fingerprints and what to call."""

    spec: EffectSpec
    key: str
    fingerprints: dict[str, str]
    default_fingerprints: Callable[[], dict[str, str]]
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    instance: Any = None


class TaskSpec(Struct, frozen=True, weakref=True):
    """One ``@durable_task`` declaration."""

    name: str
    function: Callable[..., Any]
    is_async: bool
    signature: inspect.Signature
    returns: Annotation
    accepts: Annotation
    retry: Retry
    aliases: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    timeout: float | None = None
    concurrency: int | None = None
    concurrency_key: KeyTemplate | None = None
    concurrency_template: str | None = None
    on_dead: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Every name under which a run of this task may be stored."""
        return (self.name, *self.aliases)
