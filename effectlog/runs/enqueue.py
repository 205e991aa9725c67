"""Making runs: bound and encoded calls, idempotency keys, events and their subscribers, children of attempts."""

from __future__ import annotations

import inspect
import itertools
import json
from collections import OrderedDict
from collections.abc import Sized
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from effectlog import telemetry
from effectlog.codec import encode_as
from effectlog.context import here_attempt
from effectlog.decorators.registry import registered
from effectlog.decorators.subscribers import once_each, payload_parameter
from effectlog.decorators.task import options_of, spec_of
from effectlog.decorators.task_arguments import argument_fingerprints, bound, differing_parameters, encoded
from effectlog.errors import (
    ConfigurationError,
    IdempotencyConflict,
    KeyTemplateError,
    NoSubscriber,
)
from effectlog.keys import KeyTemplate, check_name, fingerprints, new_run_id
from effectlog.runs.children import chain, check_child, check_no_transaction, inherit
from effectlog.runs.run import Run
from effectlog.store import commands as c
from effectlog.store.rows import NewRun
from effectlog.validation import fitting

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence

    from effectlog.context import RunningAttempt
    from effectlog.decorators.call_options import CallOptions
    from effectlog.decorators.spec import TaskSpec
    from effectlog.engine.runtime import Runtime
    from effectlog.runs.administration import Administration


T = TypeVar("T")

CHUNK = 250
"""Runs in one transaction of ``enqueue_many``."""


class Target(Protocol):
    """Where runs are stored: by the engine, or in a transaction of the caller's."""

    async def apply(self, command: c.CreateRuns) -> c.Outcome: ...
    async def read(self, coroutine: Coroutine[Any, Any, T]) -> T: ...


class Enqueuer:
    """Stores calls of tasks."""

    def __init__(self, runtime: Runtime, admin: Administration) -> None:
        self._runtime = runtime
        self._engine = runtime.engine
        self.admin = admin

    # --- calls ---------------------------------------------------------------------------------

    def command(
        self, task: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], trace: str | None
    ) -> c.CreateRuns:
        """The command that stores one call; refuses early what can't work."""
        spec, options = spec_of(task), options_of(task)
        attempt = here_attempt()
        if attempt is not None:
            check_child(attempt, options.idempotency_key, f"enqueue({spec.name})")
        arguments = bound(spec, args, dict(kwargs))
        prints = {} if options.idempotency_key is None else argument_fingerprints(spec, arguments)
        run = self._new_run(spec, arguments, options, attempt, trace)
        return c.CreateRuns(
            (run,),
            scope=f"task:{spec.name}",
            idempotency_key=options.idempotency_key,
            fingerprints=json.dumps(self._runtime.seals.seal(prints, run.id)),
            compared=prints,
            fence=attempt.fence if attempt else None,
            older_scopes=tuple(f"task:{name}" for name in spec.aliases),
        )

    def _new_run(
        self,
        spec: TaskSpec,
        arguments: dict[str, Any],
        options: CallOptions,
        attempt: RunningAttempt | None,
        trace: str | None,
    ) -> NewRun:
        what = f"the arguments of task {spec.name} take"
        data = fitting(
            encoded(spec, arguments, self._runtime.codec),
            self._runtime.max_value_bytes,
            what,
            path="args",
            value=arguments,
        )
        run = NewRun(
            id=new_run_id(),
            task=spec.name,
            args=data,
            delay=options.delay,
            due_at=None if options.at is None else options.at.timestamp(),
            correlation_id=options.correlation_id,
            concurrency_key=_concurrency_key(spec, arguments),
            trace=trace,
        )
        inherit(run, attempt)
        return run

    async def enqueue(
        self, task: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], into: Target | None = None
    ) -> Run[Any]:
        spec = spec_of(task)
        with telemetry.producing("enqueue", spec.name, self._engine.store.name, here_attempt()) as producer:
            command = self.command(task, args, kwargs, producer.trace)
            run = self.handle(spec, command, await (into or self).apply(command))
            producer.made([run.id], created=run.created)
        return run

    async def apply(self, command: c.CreateRuns) -> c.Outcome:
        """Store by the engine, after what the running attempt has recorded."""
        return (await self._commit(command))[0]

    async def _commit(self, *commands: c.CreateRuns) -> list[c.Outcome]:
        check_no_transaction()
        return await self._engine.commit(*commands, chain=chain())

    async def read(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Read from the store."""
        return await self._engine.read(coroutine)

    def handle(self, spec: TaskSpec, command: c.CreateRuns, outcome: c.Outcome) -> Run[Any]:
        """What became of one call. Raises IdempotencyConflict, or the control signal of a lost attempt."""
        created = _created(outcome)
        if not created.created:
            stored, run_id = json.loads(created.fingerprints), created.run_ids[0]
            names = differing_parameters(spec, stored, command.compared, run_id, self._runtime.seals)
            if names:
                raise _conflict(command, created, names)
        return Run(self.admin, created.run_ids[0], created=created.created, returns=spec.returns)

    async def enqueue_many(
        self, task: Any, calls: Iterable[tuple[Any, ...]], idempotency_keys: Sequence[str] | None
    ) -> list[Run[Any]]:
        keyed = with_keys(calls, idempotency_keys)
        spec = spec_of(task)
        runs: list[Run[Any]] = []
        with telemetry.producing("enqueue", spec.name, self._engine.store.name, here_attempt()) as producer:
            while chunk := list(itertools.islice(keyed, CHUNK)):
                commands = [
                    self.command(keyed_task(task, key), args, {}, producer.trace) for args, key in chunk
                ]
                runs += self._handles(spec, commands, await self._commit(*commands), runs)
            producer.made([run.id for run in runs], created=any(run.created for run in runs))
        return runs

    def _handles(
        self,
        spec: TaskSpec,
        commands: list[c.CreateRuns],
        outcomes: list[c.Outcome],
        before: list[Run[Any]],
    ) -> list[Run[Any]]:
        """What became of a chunk. A conflict is told with the runs that the whole call has made, which stay."""
        runs: list[Run[Any]] = []
        conflict: IdempotencyConflict | None = None
        for command, outcome in zip(commands, outcomes, strict=True):
            try:
                runs.append(self.handle(spec, command, outcome))
            except IdempotencyConflict as error:
                conflict = conflict or error
        if conflict is None:
            return runs
        raise conflict_among(conflict, (*before, *runs)) from None

    # --- events --------------------------------------------------------------------------------

    async def emit(
        self,
        event: str,
        payload: Any,
        *,
        idempotency_key: str | None,
        correlation_id: str | None,
        into: Target | None = None,
    ) -> list[Run[Any]]:
        _check_emit(event, idempotency_key, correlation_id)
        attempt = here_attempt()
        if attempt is not None:
            check_child(attempt, idempotency_key, f"emit({event!r})")
        target = into or self
        with telemetry.producing("emit", event, self._engine.store.name, attempt) as producer:
            subscriptions = await target.read(self._engine.store.subscriptions(event))
            runs = self._event_runs(event, subscriptions, payload, correlation_id, producer.trace)
            command = self._emission(event, runs, payload, idempotency_key)
            made = self._emitted(command, await target.apply(command))
            producer.made([run.id for run in made], created=any(run.created for run in made))
        return made

    def _event_runs(
        self,
        event: str,
        subscriptions: Sequence[c.Subscription],
        payload: Any,
        correlation_id: str | None,
        trace: str | None,
    ) -> tuple[NewRun, ...]:
        if not subscriptions:
            raise NoSubscriber(
                f"no task is subscribed to {event!r}, so nothing was recorded: declare one with "
                f"@durable_task(on={event!r}) and open a log or worker in a process that imports it",
                event=event,
            )
        attempt = here_attempt()
        return tuple(
            self._event_run(s, payload, correlation_id, attempt, trace) for s in once_each(subscriptions)
        )

    def _emission(self, event: str, runs: tuple[NewRun, ...], payload: Any, key: str | None) -> c.CreateRuns:
        attempt = here_attempt()
        prints = {} if key is None else {"payload": _fingerprint(event, payload)}
        return c.CreateRuns(
            runs,
            scope=f"event:{event}",
            idempotency_key=key,
            fingerprints=json.dumps(self._runtime.seals.seal(prints, runs[0].id)),
            compared=prints,
            fence=attempt.fence if attempt else None,
        )

    def _emitted(self, command: c.CreateRuns, outcome: c.Outcome) -> list[Run[Any]]:
        created = _created(outcome)
        if not created.created:
            stored = json.loads(created.fingerprints)
            if stored != self._runtime.seals.like(stored, command.compared, created.run_ids[0]):
                raise _conflict(command, created, ["payload"])
        # Subscribers may have come or gone since the key's first emit: its runs stay what they were.
        return [Run(self.admin, run_id, created=created.created) for run_id in created.run_ids]

    def _event_run(
        self,
        subscription: c.Subscription,
        payload: Any,
        correlation_id: str | None,
        attempt: RunningAttempt | None,
        trace: str | None,
    ) -> NewRun:
        arguments = {subscription.parameter: payload}
        run = NewRun(
            id=new_run_id(),
            task=subscription.task,
            args=encode_as(self._runtime.codec, arguments, "arguments"),
            event=subscription.event,
            correlation_id=correlation_id,
            concurrency_key=_subscriber_key(subscription, arguments),
            trace=trace,
        )
        what = f"the payload of {subscription.event!r} takes"
        fitting(run.args, self._runtime.max_value_bytes, what, path="payload", value=payload)
        inherit(run, attempt)
        return run

    def subscriptions(self, tasks: Iterable[TaskSpec]) -> tuple[c.Subscription, ...]:
        """What these tasks subscribe to, as stored for processes that don't know them."""
        specs = {spec.name: spec for spec in tasks}
        return tuple(
            c.Subscription(event, spec.name, payload_parameter(spec), spec.concurrency_template, spec.aliases)
            for spec in specs.values()
            for event in spec.events
        )


def _check_emit(event: str, key: str | None, correlation_id: str | None) -> None:
    check_name("emit: an event", event)
    if key is not None:
        check_name(f"emit({event!r}): an idempotency key", key)
    if correlation_id is not None:
        check_name(f"emit({event!r}): a correlation id", correlation_id)


def _concurrency_key(spec: TaskSpec, arguments: dict[str, Any]) -> str | None:
    if spec.concurrency_key is None:
        return None
    call = inspect.BoundArguments(spec.signature, OrderedDict(arguments))
    return spec.concurrency_key.render(_defaults(spec) | arguments, call.args, call.kwargs)


def _defaults(spec: TaskSpec) -> dict[str, Any]:
    return {
        name: parameter.default
        for name, parameter in spec.signature.parameters.items()
        if parameter.default is not parameter.empty
    }


def _subscriber_key(subscription: c.Subscription, arguments: dict[str, Any]) -> str | None:
    known = registered().get(subscription.task)
    if known is not None:
        return _concurrency_key(known, arguments)
    if subscription.concurrency_key is None:
        return None
    try:
        template = KeyTemplate(subscription.concurrency_key, _subscriber_key, arguments)
        return template.render(arguments, (), arguments)
    except KeyTemplateError as error:
        raise KeyTemplateError(
            f"the concurrency key {subscription.concurrency_key!r}, under which {subscription.task} is subscribed to "
            f"{subscription.event!r}, can't be built: {error}"
        ) from error


def _fingerprint(event: str, payload: Any) -> str:
    return fingerprints({"payload": payload}, frozenset(), owner=f"emit({event!r})")["payload"]


def _created(outcome: c.Outcome) -> c.Created:
    if isinstance(outcome, c.Created):
        return outcome
    attempt = here_attempt()
    assert attempt is not None  # noqa: S101 - only a fenced command can be refused
    raise attempt.lose()


def _conflict(command: c.CreateRuns, created: c.Created, names: list[str]) -> IdempotencyConflict:
    return IdempotencyConflict(
        f"idempotency key {command.idempotency_key!r} of {command.scope} belongs to run {created.run_ids[0]} with "
        f"another {', '.join(names)}; use a new key for a new operation, or the first call's arguments",
        scope=command.scope,
        idempotency_key=command.idempotency_key,
        parameters=names,
        run_id=created.run_ids[0],
    )


def keyed_task(task: Any, key: str | None) -> Any:
    return task if key is None else task.with_options(idempotency_key=key)


def with_keys(
    calls: Iterable[tuple[Any, ...]], keys: Sequence[str] | None
) -> Iterator[tuple[tuple[Any, ...], str | None]]:
    if keys is None:
        pairs: Iterable[tuple[tuple[Any, ...], str | None]] = ((args, None) for args in calls)
    else:
        if isinstance(calls, Sized) and len(calls) != len(keys):
            raise ConfigurationError(
                f"enqueue_many: {len(calls)} calls and {len(keys)} idempotency keys; give one key a call"
            )
        pairs = zip(calls, keys, strict=True)
    for args, key in pairs:
        if not isinstance(args, tuple | list):
            raise ConfigurationError(
                f"enqueue_many takes one tuple of positional arguments a run, as in [(1,), (2,)], not {args!r}"
            )
        yield tuple(args), key


def conflict_among(conflict: IdempotencyConflict, runs: Iterable[Run[Any]]) -> IdempotencyConflict:
    """The first conflict, with what the whole call has made, which stays."""
    made = tuple(run.id for run in runs if run.created)
    return IdempotencyConflict(
        f"{conflict}. The runs of the other calls up to here are stored ({len(made)} new ones, in the field "
        f"'created'): with their keys, the same enqueue_many gives them again",
        **{**conflict.__dict__, "created": made},
    )
