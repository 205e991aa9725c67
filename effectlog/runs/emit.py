"""``emit``: one run for each task that is subscribed to an event, all in one transaction.

Whoever emits may not know the tasks: what it needs of them is stored with their subscriptions.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from effectlog import telemetry
from effectlog.codec import encode_as
from effectlog.context import here_attempt
from effectlog.decorators.subscribers import payload_parameter
from effectlog.errors import NoSubscriber
from effectlog.keys import check_name, fingerprints, new_run_id
from effectlog.runs.new_run import check_child, conflict, created, fence_of, inherit, subscriber_key
from effectlog.runs.run import Run
from effectlog.runs.target import ByEngine
from effectlog.store import commands as c
from effectlog.store.rows import NewRun
from effectlog.validation import fitting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from effectlog.context import RunningAttempt
    from effectlog.decorators.spec import TaskSpec
    from effectlog.engine.runtime import Runtime
    from effectlog.runs.administration import Administration
    from effectlog.runs.target import Target


class Emitter:
    """Turns events into runs of their subscribers."""

    def __init__(self, runtime: Runtime, admin: Administration) -> None:
        self._runtime = runtime
        self._admin = admin
        self._by_engine = ByEngine(runtime.engine)

    async def emit(
        self,
        event: str,
        payload: Any,
        *,
        idempotency_key: str | None,
        correlation_id: str | None,
        into: Target | None = None,
    ) -> list[Run[Any]]:
        """Make one run for each subscriber. Returns their handles; for a known key, those of its first emit.

        ``into``: where they are stored, by default by the engine, durable on return. Raises NoSubscriber, and
        records nothing, without a subscriber; else as ``Enqueuer.enqueue``.
        """
        _check_names(event, idempotency_key, correlation_id)
        attempt, target = here_attempt(), into or self._by_engine
        check_child(attempt, idempotency_key, f"emit({event!r})")
        with telemetry.producing("emit", event, self._runtime.store.name, attempt) as producer:
            subscriptions = await target.read(self._runtime.store.subscriptions(event))
            if not subscriptions:
                raise _no_subscriber(event)
            new = tuple(
                inherit(self._new_run(subscription, payload, correlation_id, producer.trace), attempt)
                for subscription in once_each(subscriptions)
            )
            command = self._command(event, new, payload, idempotency_key, attempt)
            (outcome,) = await target.apply(command, attempt=attempt)
            runs = self._handles(command, created(outcome, attempt))
            producer.made([run.id for run in runs], created=any(run.created for run in runs))
        return runs

    def _new_run(
        self, subscription: c.Subscription, payload: Any, correlation_id: str | None, trace: str | None
    ) -> NewRun:
        arguments = {subscription.parameter: payload}
        what, most = f"the payload of {subscription.event!r} takes", self._runtime.max_value_bytes
        args = fitting(
            encode_as(self._runtime.codec, arguments, "arguments"), most, what, path="payload", value=payload
        )
        return NewRun(
            id=new_run_id(),
            task=subscription.task,
            args=args,
            event=subscription.event,
            correlation_id=correlation_id,
            concurrency_key=subscriber_key(subscription, arguments),
            trace=trace,
        )

    def _command(
        self,
        event: str,
        runs: tuple[NewRun, ...],
        payload: Any,
        key: str | None,
        attempt: RunningAttempt | None,
    ) -> c.CreateRuns:
        prints = {} if key is None else _payload_fingerprint(event, payload)
        return c.CreateRuns(
            runs,
            scope=f"event:{event}",
            idempotency_key=key,
            fingerprints=json.dumps(self._runtime.seals.seal(prints, runs[0].id)),
            compared=prints,
            fence=fence_of(attempt),
        )

    def _handles(self, command: c.CreateRuns, made: c.Created) -> list[Run[Any]]:
        if not made.created:
            stored = json.loads(made.fingerprints)
            if stored != self._runtime.seals.like(stored, command.compared, made.run_ids[0]):
                raise conflict(command, made, ["payload"])
        # Subscribers may have come or gone since the key's first emit: its runs stay what they were.
        return [Run(self._admin, run_id, created=made.created) for run_id in made.run_ids]


def subscriptions_of(tasks: Iterable[TaskSpec]) -> tuple[c.Subscription, ...]:
    """What these tasks subscribe to, as stored for processes that don't know them."""
    specs = {spec.name: spec for spec in tasks}
    return tuple(
        c.Subscription(event, spec.name, payload_parameter(spec), spec.concurrency_template, spec.aliases)
        for spec in specs.values()
        for event in spec.events
    )


def once_each(subscriptions: Sequence[c.Subscription]) -> Sequence[c.Subscription]:
    """An event's subscribers, without those that a newer name subscribes as well: old code may still open."""
    renamed = {alias for subscription in subscriptions for alias in subscription.aliases}
    # Two that claim each other's name are a mistake, but no reason to lose the event.
    return [
        subscription for subscription in subscriptions if subscription.task not in renamed
    ] or subscriptions


def _check_names(event: str, key: str | None, correlation_id: str | None) -> None:
    check_name("emit: an event", event)
    if key is not None:
        check_name(f"emit({event!r}): an idempotency key", key)
    if correlation_id is not None:
        check_name(f"emit({event!r}): a correlation id", correlation_id)


def _payload_fingerprint(event: str, payload: Any) -> dict[str, str]:
    return fingerprints({"payload": payload}, frozenset(), owner=f"emit({event!r})")


def _no_subscriber(event: str) -> NoSubscriber:
    return NoSubscriber(
        f"no task is subscribed to {event!r}, so nothing was recorded: declare one with "
        f"@durable_task(on={event!r}) and open a log or worker in a process that imports it",
        event=event,
    )
