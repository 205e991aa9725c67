"""``enqueue``: calls of tasks as durable runs, one or many, each made once for an idempotency key.

The walk of a call: bind and encode the arguments, build the command, store it, and compare what the store
holds under the key with what was asked for. The running attempt is looked up once, where the walk begins.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sized
from typing import TYPE_CHECKING, Any

from effectlog import telemetry
from effectlog.context import here_attempt
from effectlog.decorators.task import options_of, spec_of
from effectlog.decorators.task_arguments import argument_fingerprints, bound, differing_parameters, encoded
from effectlog.errors import ConfigurationError, IdempotencyConflict
from effectlog.keys import new_run_id
from effectlog.runs.new_run import check_child, concurrency_key, conflict, created, fence_of, inherit
from effectlog.runs.run import Run
from effectlog.runs.target import ByEngine
from effectlog.store import commands as c
from effectlog.store.rows import NewRun
from effectlog.validation import fitting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from effectlog.context import RunningAttempt
    from effectlog.decorators.call_options import CallOptions
    from effectlog.decorators.spec import TaskSpec
    from effectlog.engine.runtime import Runtime
    from effectlog.runs.administration import Administration
    from effectlog.runs.target import Target


CHUNK = 250
"""Runs in one transaction of ``enqueue_many``."""


class Enqueuer:
    """Stores calls of tasks."""

    def __init__(self, runtime: Runtime, admin: Administration) -> None:
        self.admin = admin
        self._runtime = runtime
        self._by_engine = ByEngine(runtime.engine)

    async def enqueue(
        self, task: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], into: Target | None = None
    ) -> Run[Any]:
        """Store one call and return its run's handle, that of the first run for a known idempotency key.

        ``into``: where it is stored, by default by the engine, durable on return. Raises TypeError for
        arguments that don't fit, EncodingError for those that can't be stored, IdempotencyConflict for a key
        with other arguments, ConfigurationError inside an attempt without a key, LeaseLost if that attempt
        lost its run.
        """
        spec, attempt = spec_of(task), here_attempt()
        with telemetry.producing("enqueue", spec.name, self._runtime.store.name, attempt) as producer:
            command = self.command(task, args, kwargs, attempt, producer.trace)
            (outcome,) = await (into or self._by_engine).apply(command, attempt=attempt)
            run = self.handle(spec, command, outcome, attempt)
            producer.made([run.id], created=run.created)
        return run

    async def enqueue_many(
        self, task: Any, calls: Iterable[tuple[Any, ...]], idempotency_keys: Sequence[str] | None
    ) -> list[Run[Any]]:
        """Store many calls in transactions of ``CHUNK`` runs; the handles in their order, durable on return.

        Raises as ``enqueue``; the chunks before the refused one are stored. An IdempotencyConflict is raised
        after the rest of its own chunk was stored, and has the ids of all new runs in ``created``.
        """
        keyed = _with_keys(calls, idempotency_keys)
        spec, attempt = spec_of(task), here_attempt()
        runs: list[Run[Any]] = []
        with telemetry.producing("enqueue", spec.name, self._runtime.store.name, attempt) as producer:
            while chunk := list(itertools.islice(keyed, CHUNK)):
                commands = [
                    self.command(_keyed_task(task, key), args, {}, attempt, producer.trace)
                    for args, key in chunk
                ]
                outcomes = await self._by_engine.apply(*commands, attempt=attempt)
                runs += self._handles(spec, commands, outcomes, attempt, before=runs)
            producer.made([run.id for run in runs], created=any(run.created for run in runs))
        return runs

    # --- the command ---------------------------------------------------------------------------

    def command(
        self,
        task: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        attempt: RunningAttempt | None,
        trace: str | None,
    ) -> c.CreateRuns:
        """The command that stores one call; refuses early what can't work, as ``enqueue`` says."""
        spec, options = spec_of(task), options_of(task)
        check_child(attempt, options.idempotency_key, f"enqueue({spec.name})")
        arguments = bound(spec, args, dict(kwargs))
        prints = {} if options.idempotency_key is None else argument_fingerprints(spec, arguments)
        run = inherit(self._new_run(spec, arguments, options, trace), attempt)
        return c.CreateRuns(
            (run,),
            scope=f"task:{spec.name}",
            idempotency_key=options.idempotency_key,
            fingerprints=json.dumps(self._runtime.seals.seal(prints, run.id)),
            compared=prints,
            fence=fence_of(attempt),
            older_scopes=tuple(f"task:{name}" for name in spec.aliases),
        )

    def _new_run(
        self, spec: TaskSpec, arguments: dict[str, Any], options: CallOptions, trace: str | None
    ) -> NewRun:
        data = fitting(
            encoded(spec, arguments, self._runtime.codec),
            self._runtime.max_value_bytes,
            f"the arguments of task {spec.name} take",
            path="args",
            value=arguments,
        )
        return NewRun(
            id=new_run_id(),
            task=spec.name,
            args=data,
            delay=options.delay,
            due_at=None if options.at is None else options.at.timestamp(),
            correlation_id=options.correlation_id,
            concurrency_key=concurrency_key(spec, arguments),
            trace=trace,
        )

    # --- what became of it ---------------------------------------------------------------------

    def handle(
        self, spec: TaskSpec, command: c.CreateRuns, outcome: c.Outcome, attempt: RunningAttempt | None
    ) -> Run[Any]:
        """The handle of one call's run.

        Raises IdempotencyConflict, or the control signal of a lost attempt.
        """
        made = created(outcome, attempt)
        run_id = made.run_ids[0]
        if not made.created:
            stored = json.loads(made.fingerprints)
            names = differing_parameters(spec, stored, command.compared, run_id, self._runtime.seals)
            if names:
                raise conflict(command, made, names)
        return Run(self.admin, run_id, created=made.created, returns=spec.returns)

    def _handles(
        self,
        spec: TaskSpec,
        commands: list[c.CreateRuns],
        outcomes: list[c.Outcome],
        attempt: RunningAttempt | None,
        *,
        before: list[Run[Any]],
    ) -> list[Run[Any]]:
        """The handles of a chunk.

        A conflict is raised with the runs that the whole call has made, which stay.
        """
        runs: list[Run[Any]] = []
        first: IdempotencyConflict | None = None
        for command, outcome in zip(commands, outcomes, strict=True):
            try:
                runs.append(self.handle(spec, command, outcome, attempt))
            except IdempotencyConflict as error:
                first = first or error
        if first is None:
            return runs
        raise _conflict_among(first, (*before, *runs)) from None


def _keyed_task(task: Any, key: str | None) -> Any:
    return task if key is None else task.with_options(idempotency_key=key)


def _with_keys(
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
                "enqueue_many takes one tuple of positional arguments a run, as in [(1,), (2,)], not "
                f"{args!r}"
            )
        yield tuple(args), key


def _conflict_among(conflict: IdempotencyConflict, runs: Iterable[Run[Any]]) -> IdempotencyConflict:
    """The first conflict, with what the whole call has made, which stays."""
    made = tuple(run.id for run in runs if run.created)
    return IdempotencyConflict(
        f"{conflict}. The runs of the other calls up to here are stored ({len(made)} new ones, in the field "
        f"'created'): with their keys, the same enqueue_many gives them again",
        **{**conflict.__dict__, "created": made},
    )
