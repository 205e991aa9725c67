"""``@durable_task``: names a function so that calls of it can be stored and executed by any worker."""

from __future__ import annotations

import inspect
import pickle
import sys
import typing
from collections.abc import Callable, Coroutine
from datetime import datetime
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar, overload

from effectlog.codec import return_annotation
from effectlog.decorators.call_options import CallOptions, check_options
from effectlog.decorators.definition import Definition
from effectlog.decorators.functions import (
    annotated,
    is_async,
    plain,
    qualified_name,
    refuse_generator,
    refuse_subclass,
    refuse_uncallable,
)
from effectlog.decorators.registry import register
from effectlog.decorators.spec import Annotation, TaskSpec
from effectlog.decorators.subscribers import check_subscriber
from effectlog.decorators.wrapping import BoundFunctionWrapper, FunctionWrapper, by_reference
from effectlog.errors import ConfigurationError
from effectlog.keys import KeyTemplate, check_name, signature_of
from effectlog.retry import Retry
from effectlog.validation import seconds, texts, whole

if typing.TYPE_CHECKING:
    from effectlog.clock import Duration

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
Call_co = TypeVar("Call_co", covariant=True)
Owner = TypeVar("Owner")
Owner_contra = TypeVar("Owner_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class _Options:
    """What a task offers besides being its function; shared by the task and its bound forms."""

    _self_spec: TaskSpec
    _self_options: CallOptions

    @property
    def spec(self) -> TaskSpec:
        """What was declared."""
        return self._self_spec

    @property
    def options(self) -> CallOptions:
        """What ``with_options`` set."""
        return self._self_options


def _with_options(task: _Options, options: CallOptions) -> Any:
    """A pickled task with its options again."""
    return _declared(task).with_call_options(options)


def _declared(task: Any) -> Any:
    task = _unbound(task)
    return task._self_parent if isinstance(task, _BoundTask) else task  # noqa: SLF001 - wrapt's own name


class _BoundTask(_Options, BoundFunctionWrapper):
    """A class or static method's task as seen through its class."""

    @property
    def spec(self) -> TaskSpec:
        spec: TaskSpec = self._self_parent.spec
        return spec

    @property
    def options(self) -> CallOptions:
        options: CallOptions = self._self_parent.options
        return options

    def with_options(self, **options: Any) -> Any:
        """As ``Task.with_options``."""
        refuse_subclass(self)
        return self._self_parent.with_options(**options)


class _ClassMethodTask(typing.Protocol[Owner_contra, Q, R_co, Call_co]):
    """For type checkers: a task whose first parameter is its class, which access through the class binds."""

    def __call__(self, cls: type[Owner_contra], /, *args: Q.args, **kwargs: Q.kwargs) -> Call_co: ...

    def _result(self) -> R_co: ...


class Task(_Options, FunctionWrapper, Generic[P, R_co, Call_co]):
    """A durable task. Calling it runs the plain function; ``log.enqueue`` and ``log.run`` make it durable."""

    def __init__(
        self, function: Any, spec: TaskSpec, definition: Definition, options: CallOptions | None = None
    ) -> None:
        super().__init__(function, _plain_call)
        self._self_spec = spec
        self._self_definition = definition
        self._self_options = options or CallOptions()

    if typing.TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Call_co: ...

        def _result(self) -> R_co: ...

        @overload
        def __get__(
            self: _ClassMethodTask[Owner, Q, R, Call_co], instance: Any, owner: Any = None
        ) -> Task[Q, R, Call_co]: ...
        @overload
        def __get__(self, instance: Any, owner: Any = None) -> Task[P, R_co, Call_co]: ...
        def __get__(self, instance: Any, owner: Any = None) -> Any: ...

    else:
        __bound_function_wrapper__ = _BoundTask

    def __reduce__(self) -> Any:
        if self._self_options == CallOptions():
            return super().__reduce__()
        found = by_reference(self.__wrapped__)
        if getattr(_declared(found), "_self_spec", None) is not self._self_spec:
            raise pickle.PicklingError(
                f"can't pickle task {self._self_spec.name}: another object has its place in its module"
            )
        return _with_options, (found, self._self_options)

    def with_call_options(self, options: CallOptions) -> Task[P, R_co, Call_co]:
        """A copy of the task with these options in the place of its own."""
        return Task(self.__wrapped__, self._self_spec, self._self_definition, options)

    def with_options(
        self,
        *,
        idempotency_key: str | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        correlation_id: str | None = None,
    ) -> Task[P, R_co, Call_co]:
        """A copy of the task with options for the call that is made with it.

        Those set before stay unless given anew.

        Args:
            idempotency_key: one run per key, however often it is enqueued, until that run is purged.
            delay: how long until the run is due, in seconds or as a timedelta.
            at: when the run is due; a datetime with a time zone.
            correlation_id: carried on to every run that this one makes.

        Raises:
            ConfigurationError: for a negative delay, a datetime without a zone, both at once, or a key or
                correlation id that is empty, too long, or holds a NUL or a lone surrogate.
        """
        before = self._self_options
        wait = 0.0 if delay is None else seconds(delay, f"task {self._self_spec.name}: with_options(delay")
        check_options(self._self_spec.name, idempotency_key, correlation_id, wait, at)
        due = (before.delay, before.at) if delay is None and at is None else (wait, at)
        key = before.idempotency_key if idempotency_key is None else idempotency_key
        options = CallOptions(key, *due, before.correlation_id if correlation_id is None else correlation_id)
        return self.with_call_options(options)


def _plain_call(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG001
    return wrapped(*args, **kwargs)


@overload
def durable_task(function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R, Coroutine[Any, Any, R]]: ...
@overload
def durable_task(function: Callable[P, R], /) -> Task[P, R, R]: ...
@overload
def durable_task(
    *,
    name: str | None = None,
    aliases: str | tuple[str, ...] | list[str] = (),
    on: str | tuple[str, ...] | list[str] | None = None,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    concurrency: int | None = None,
    concurrency_key: str | Callable[..., str] | None = None,
    on_dead: Any = None,
) -> _Decorator: ...
def durable_task(function: Any = None, /, **options: Any) -> Any:  # noqa: D417 - they are described by name
    """Make a function a durable task. Use it bare or with options.

    Args:
        function: a function, static method or class method; instance methods can't be stored.
        name: the stored name, by default ``module.function``; give the old one after a rename.
        aliases: further stored names whose runs this function executes.
        on: the event, or events, for each emit of which one run is made.
        retry: how often and how fast an attempt that raised is followed by another.
        timeout: how long an attempt may take, in seconds or as a timedelta; async code is cancelled then, sync code
            is reported. Time for which the whole process was stopped (a signal, a suspended host) does not count.
        concurrency: how many runs of this task are executed at a time, over all workers.
        concurrency_key: a template over the parameters; one run at a time for each key.
        on_dead: a durable task taking ``(run_id: str, error: str)``, run for each dead letter.

    Raises:
        ConfigurationError: for what can't work, or if another function has this name.
        TypeError: for a generator function.
    """
    if function is not None:
        return _declare(function)
    return lambda decorated: _declare(decorated, **options)


class _Decorator(typing.Protocol):
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Task[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...


def _declare(
    function: Any,
    *,
    name: str | None = None,
    aliases: str | tuple[str, ...] | list[str] = (),
    on: str | tuple[str, ...] | list[str] | None = None,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    concurrency: int | None = None,
    concurrency_key: str | Callable[..., str] | None = None,
    on_dead: Any = None,
) -> Task[Any, Any, Any]:
    refuse_uncallable(function, "@durable_task")
    refuse_generator(function, "@durable_task")
    inner = plain(function)
    stored = name or qualified_name(function)
    signature, call = _callable_form(function, inner, stored)
    limit = None if timeout is None else seconds(timeout, f"task {stored} (timeout", positive=True)
    if concurrency is not None:
        whole(concurrency, f"task {stored} (concurrency", least=1)
    key = None
    if concurrency_key is not None:
        what = f"task {stored} (concurrency_key=)"
        key = KeyTemplate(concurrency_key, inner, signature.parameters, what=what)
    spec = TaskSpec(
        name=stored,
        function=call,
        is_async=is_async(function),
        signature=signature,
        returns=Annotation(annotated(inner), return_annotation),
        accepts=Annotation(annotated(inner), _argument_annotations),
        retry=Retry.checked(retry, f"task {stored}") or Retry(),
        aliases=texts(aliases, f"task {stored}: aliases="),
        events=() if on is None else texts(on, f"task {stored}: on="),
        timeout=limit,
        concurrency=concurrency,
        concurrency_key=key,
        concurrency_template=concurrency_key if isinstance(concurrency_key, str) else None,
        on_dead=_task_name(on_dead, stored),
    )
    for text in (spec.name, *spec.aliases):
        check_name(f"task {stored}: a name", text)
    for text in spec.events:
        check_name(f"task {stored}: an event", text)
    check_subscriber(spec)
    definition = Definition(function)
    register(spec, definition)
    return Task(function, spec, definition)


def _callable_form(function: Any, inner: Any, name: str) -> tuple[inspect.Signature, Callable[..., Any]]:
    """The signature that callers see, and what a worker calls."""
    signature = signature_of(inner)
    first = next(iter(signature.parameters), None)
    qualified = getattr(inner, "__qualname__", "")
    in_class = "." in qualified.replace("<locals>.", "")
    if isinstance(function, classmethod) or (first == "cls" and in_class):
        parameters = list(signature.parameters.values())[1:]
        return signature.replace(parameters=parameters), _on_its_class(inner)
    if first == "self" and in_class and not isinstance(function, staticmethod):
        raise ConfigurationError(
            f"@durable_task can't decorate the instance method {name}: its object can't be stored; make it a "
            f"function or static method that takes what identifies the object"
        )
    return signature, inner


def _on_its_class(inner: Any) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        owner: Any = sys.modules[inner.__module__]
        path = inner.__qualname__.split(".")[:-1]
        if "<locals>" in path:
            raise ConfigurationError(
                f"{inner.__qualname__} is a class method inside a function; move its class out"
            )
        for part in path:
            owner = getattr(owner, part)
        return inner(owner, *args, **kwargs)

    call.__name__ = inner.__name__
    return call


def _argument_annotations(function: Callable[..., Any]) -> Any:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception:
        return Any
    hints.pop("return", None)
    return tuple.__class_getitem__(tuple(hints.values())) if hints else Any


def _task_name(task: Any, of: str) -> str | None:
    if task is None or isinstance(task, str):
        return task
    if isinstance(task, _Options):
        try:
            task.spec.signature.bind(run_id="", error="")
        except TypeError as error:
            raise ConfigurationError(
                f"task {of}: on_dead={task.spec.name} is called with (run_id: str, error: str), and it takes "
                f"{task.spec.signature}: {error}"
            ) from None
        return task.spec.name
    raise ConfigurationError(f"task {of}: on_dead= names a durable task, not {type(task).__qualname__}")


def _unbound(task: Any) -> Any:
    """From Python 3.13 on a class method's task comes as an ordinary method of its class."""
    return task.__func__ if type(task) is MethodType else task


def spec_of(task: Any) -> TaskSpec:
    """The declaration behind a task. Raises ConfigurationError for anything else."""
    found = _unbound(task)
    if isinstance(found, _Options):
        refuse_subclass(task)
        return found.spec
    raise ConfigurationError(
        f"{getattr(found, '__qualname__', found)!r} is not a durable task; decorate the function with "
        "@durable_task"
    )


def options_of(task: Any) -> CallOptions:
    """The call options that a task carries."""
    task = _unbound(task)
    return task.options if isinstance(task, _Options) else CallOptions()
