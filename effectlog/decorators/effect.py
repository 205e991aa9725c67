"""``@effect``: makes a function's calls inside an attempt journaled, and leaves it alone elsewhere."""

from __future__ import annotations

import inspect
import json
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from effectlog import context
from effectlog.codec import return_annotation
from effectlog.context import Request, place
from effectlog.decorators.definition import Definition
from effectlog.decorators.functions import (
    annotated,
    is_async,
    plain,
    qualified_name,
    refuse_generator,
    refuse_uncallable,
)
from effectlog.decorators.look_up_arguments import LookUpArguments
from effectlog.decorators.registry import declare
from effectlog.decorators.retry_horizon import check_effect
from effectlog.decorators.spec import Annotation, EffectCall, EffectSpec
from effectlog.decorators.wrapping import FunctionWrapper
from effectlog.errors import ConfigurationError, EffectLogWarning
from effectlog.keys import Binder, KeyTemplate, check_name, fingerprints, signature_of
from effectlog.model import Policy
from effectlog.retry import Retry
from effectlog.user_warnings import users_level
from effectlog.validation import error_types, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from effectlog.clock import Duration
    from effectlog.contract import Destination

F = TypeVar("F")


def effect(
    key: str | Callable[..., str],
    *,
    name: str | None = None,
    destination: Destination | str | None = None,
    in_doubt: str | Callable[..., Any] | None = None,
    lookup_budget: Duration = 300.0,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    not_applied: type[BaseException] | tuple[type[BaseException], ...] = (),
    final: type[BaseException] | tuple[type[BaseException], ...] = (),
    ignore: Iterable[str] = (),
    transactional: bool = False,
) -> Callable[[F], F]:
    """Declare that calls of this function act on the outside world.

    Inside an attempt, a *started* record is durable before the function is called and its outcome is
    recorded after it; a later attempt gets the recorded result and sends nothing. Outside of any
    attempt the function is called as if it were not decorated.

    A second effect is ruled out where the destination deduplicates by the operation id (within its send
    horizon), where the policy holds, and where a look-up finds the first one. One window stays open without
    such a key: a process that was paused inside the call, lost its run, and wakes after somebody has
    decided ``NotApplied()`` still sends. A look-up never decides that while such an owner may be alive (the
    run is held); a person is told so before deciding.

    Args:
        key: names one operation within its run: a ``str.format`` template over the parameters, defaults
            applied, or a callable that gets the call's arguments and returns a non-empty string.
        name: the function's stored name; give the old one after a rename.
        destination: the contract of the system it talks to, which the engine enforces: an object of
            ``effectlog.destinations`` or of your own, or the name of a built-in one such as ``"stripe/v1"``.
        in_doubt: what a later request does about an earlier one without an outcome: ``"resend"``,
            ``"hold"``, or a look-up function with the effect's parameters (a method's ``self`` or ``cls``
            too, if it takes it).
        lookup_budget: seconds for which a look-up may not know before the run is held.
        retry: how the request is tried again inside the attempt.
        timeout: seconds a request may take, as for tasks. An async one is cancelled then, and whether it
            happened is
            unknown; a sync one can only be reported.
        not_applied: exceptions which prove that this request did nothing.
        final: exceptions which say that the operation failed for good.
        ignore: parameters that may differ between calls of one key; they are not fingerprinted.
        transactional: the function only writes to the store's own database, on ``current_transaction()``; its
            writes commit together with its completed record, so a crash leaves both or neither and nothing is
            ever in doubt. Async functions on PostgreSQL, sync ones on SQLite (where nobody else writes
            meanwhile). Excludes ``destination``, ``in_doubt`` and ``not_applied``.

    Raises:
        ConfigurationError: at decoration, for what can't work; KeyTemplateError for the key.
        TypeError: at decoration, for a generator function.
    """
    contract = _contract(destination)
    if transactional and (destination is not None or in_doubt is not None or not_applied != ()):
        raise ConfigurationError(
            f"@effect({key!r}, transactional=True) excludes destination=, in_doubt= and not_applied=: what "
            "it does is rolled back with its record, so there is never a doubt to answer"
        )

    def decorate(function: F) -> F:
        refuse_uncallable(
            function, f"@effect({key!r})" if isinstance(key, str) else "@effect needs a key: it"
        )
        refuse_generator(function, "@effect")
        spec = EffectSpec(
            name=check_name(f"@effect({key!r}): a name", name or qualified_name(function)),
            is_async=is_async(function),
            returns=Annotation(annotated(plain(function)), return_annotation),
            policy=_policy(function, in_doubt, contract),
            declared_doubt=in_doubt is not None,
            look_up=in_doubt if callable(in_doubt) else None,
            look_up_arguments=_look_up_arguments(function, in_doubt),
            lookup_budget=_seconds(
                lookup_budget, "lookup_budget", function, more="; 0 holds at the first Unknown"
            ),
            destination=contract,
            destination_json=json.dumps(contract.to_json()) if contract else None,
            retry=Retry.checked(retry, f"effect {qualified_name(function)}"),
            timeout=None if timeout is None else _seconds(timeout, "timeout", function, positive=True),
            # Whatever leaves the function before the commit leaves nothing behind.
            not_applied=(BaseException,) if transactional else _types(not_applied, "not_applied", function),
            transactional=transactional,
            final=_types(final, "final", function),
            ignore=frozenset((ignore,) if isinstance(ignore, str) else ignore),
        )
        if contract is not None:
            contract.check_operation_id()
        check_effect(spec)
        caller = _Caller(spec, key, plain(function))
        declare(spec, caller.definition)
        wrapped: Any = FunctionWrapper(function, caller.call)
        return cast("F", wrapped)

    return decorate


class _Caller:
    """Turns calls of one decorated function into plain calls or journaled ones."""

    def __init__(self, spec: EffectSpec, key: str | Callable[..., str], function: Callable[..., Any]) -> None:
        self.spec = spec
        self.definition = Definition(function)
        self._function = function
        self._binder = Binder(function, skip_first=_takes_self(function))
        self._binder.require(spec.ignore, "ignore=", spec.name)
        names = list(signature_of(function).parameters)
        self._template = KeyTemplate(key, function, names, what=f"effect {spec.name}")
        self._defaults: dict[str, str] | None = None
        self._warned = False

    def call(self, wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
        """The one entry: wrapt calls it for functions, methods, class and static methods alike."""
        here = place.get()
        if here is None:
            return self._outside(wrapped, args, kwargs)
        if isinstance(here, Request):
            return wrapped(*args, **kwargs)  # Part of the outer effect.
        return here.call_effect(self._bind(wrapped, instance, args, kwargs))

    def _bind(self, wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> EffectCall:
        owner = self._binder.first
        if owner is not None and instance is None and args and getattr(wrapped, "__self__", None) is None:
            # Python 3.13's classmethod hands the class over as an ordinary first argument.
            instance, args = args[0], args[1:]
            wrapped = partial(wrapped, instance)
        arguments = self._binder.bind(args, kwargs)
        given = fingerprints(arguments, self.spec.ignore, owner=self.spec.name)
        if owner is not None:
            arguments = {owner: instance, **arguments}
        return EffectCall(
            self.spec,
            self._template.render(arguments, args, kwargs),
            given,
            self._default_fingerprints,
            wrapped,
            args,
            kwargs,
            instance,
        )

    def _default_fingerprints(self) -> dict[str, str]:
        if self._defaults is None:
            empty = inspect.Parameter.empty
            found = {n: p.default for n, p in signature_of(self._function).parameters.items()}
            defaults = {n: value for n, value in found.items() if value is not empty}
            self._defaults = fingerprints(defaults, self.spec.ignore, owner=self.spec.name)
        return self._defaults

    def _outside(self, wrapped: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if context.running_attempts and not self._warned:
            self._warn_unjournaled()
        if self.spec.is_async:
            return _outside_async(self.spec, wrapped, args, kwargs)
        token = place.set(Request(None, "", self.spec.destination))
        try:
            return wrapped(*args, **kwargs)
        finally:
            place.reset(token)

    def _warn_unjournaled(self) -> None:
        self._warned = True
        warnings.warn(
            f"effect {self.spec.name} was called outside any attempt while this process executes one: it "
            "ran, and nothing is recorded. In a thread pool of your own, submit "
            "current_attempt().bind(function)",
            EffectLogWarning,
            stacklevel=users_level(),
        )


async def _outside_async(spec: EffectSpec, wrapped: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    token = place.set(Request(None, "", spec.destination))
    try:
        return await wrapped(*args, **kwargs)
    finally:
        place.reset(token)


def _contract(destination: Destination | str | None) -> Destination | None:
    if not isinstance(destination, str):
        if destination is None or hasattr(destination, "deduplicates"):
            return destination
        raise ConfigurationError(
            f"destination={destination!r} is no contract; give a Destination, or the name of a built-in one "
            "such as 'stripe/v1'"
        )
    from effectlog.destinations import by_name  # noqa: PLC0415 - the catalogue is large, and few name it

    return by_name(destination)


def _policy(function: Any, in_doubt: Any, destination: Destination | None) -> Policy:
    if in_doubt is None:
        if destination is not None and not destination.deduplicates:
            raise ConfigurationError(
                f"effect {qualified_name(function)}: {destination.name} ignores idempotency keys, so a "
                "resend may be a second effect; say in_doubt='hold', a look-up function, or "
                "in_doubt='resend' if a duplicate is acceptable"
            )
        return Policy.RESEND
    if callable(in_doubt):
        return Policy.LOOK_UP
    if in_doubt in (Policy.RESEND.value, Policy.HOLD.value):
        return Policy(in_doubt)
    raise ConfigurationError(
        f"effect {qualified_name(function)}: in_doubt={in_doubt!r} is not 'resend', 'hold' or a look-up "
        "function"
    )


def _takes_self(function: Callable[..., Any]) -> bool:
    first = next(iter(signature_of(function).parameters), None)
    return first in ("self", "cls") and "." in getattr(function, "__qualname__", "")


def _look_up_arguments(function: Any, look_up: Any) -> LookUpArguments | None:
    """How the look-up is asked, if there is one."""
    if not callable(look_up):
        return None
    refuse_generator(look_up, f"effect {qualified_name(function)}: in_doubt=")
    inner = plain(function)
    return LookUpArguments(
        qualified_name(function), look_up, inner, Binder(inner, skip_first=_takes_self(inner))
    )


def _types(given: Any, option: str, function: Any) -> tuple[type[BaseException], ...]:
    return error_types(given, f"effect {qualified_name(function)}: {option}=")


def _seconds(given: Any, option: str, function: Any, *, positive: bool = False, more: str = "") -> float:
    return seconds(given, f"effect {qualified_name(function)} ({option}", positive=positive, more=more)
