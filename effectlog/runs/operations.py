"""``RunOperations``: what callers ask of stored runs, and do with them. Checks arguments; no rules here."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from effectlog.decorators.registry import registered
from effectlog.decorators.task import spec_of
from effectlog.errors import ConfigurationError
from effectlog.model import RunState
from effectlog.runs.records import run_summary
from effectlog.runs.run import Run
from effectlog.store.protocol import RunFilter
from effectlog.validation import seconds, whole
from effectlog.worker.maintenance import ENDED

if TYPE_CHECKING:
    from effectlog.clock import Duration
    from effectlog.model import Applied, NotApplied, RunSummary
    from effectlog.runs.administration import Administration


class RunOperations:
    """The part of ``EffectLog`` that finds, cancels, retries, resolves and purges stored runs."""

    def __init__(self, admin: Administration) -> None:
        self._admin = admin

    @property
    def administration(self) -> Administration:
        """What the command line is built on: the same operations, with more to say about each."""
        return self._admin

    async def get_run(self, run_id: str) -> Run[Any]:
        """A handle on a stored run. Raises RunNotFound."""
        found = await self._admin.summary(run_id)
        task = registered().get(found.row.task)
        return Run(self._admin, run_id, returns=task.returns if task else None)

    async def list_runs(
        self,
        *,
        state: RunState | str | None = None,
        task: Any = None,
        limit: int = 100,
        before: str | None = None,
    ) -> list[RunSummary]:
        """Runs, newest first, ``limit`` at most; ``before`` is the id of the run to go on from.

        Reads no stored values: arguments, results and the history of one of them are in
        ``(await log.get_run(summary.id)).record()``.
        """
        found = await self._admin.find(chosen(state, task, before, whole(limit, "list_runs(limit")))
        return [run_summary(run) for run in found]

    async def cancel_runs(
        self,
        *,
        state: RunState | str | None = None,
        task: Any = None,
        limit: int | None = None,
        before: str | None = None,
        force: bool = False,
    ) -> list[str]:
        """Cancel every run that the filters of ``list_runs`` find, as ``Run.cancel``.

        Returns the ids of those that had not ended.

        ``limit``: no more than this many, newest first. Raises ConfigurationError without ``state`` and
        ``task``.
        """
        runs = chosen_in_bulk("cancel_runs", state, task, before)
        most = None if limit is None else whole(limit, "cancel_runs(limit")
        done: list[str] = []

        async def cancel(run_id: str) -> None:
            if (await self._admin.cancel(run_id, force=force)).changed:
                done.append(run_id)

        await self._admin.each(runs, cancel, limit=most)
        return done

    async def retry_runs(
        self,
        *,
        state: RunState | str | None = None,
        task: Any = None,
        limit: int | None = None,
        before: str | None = None,
        force: bool = False,
    ) -> list[str]:
        """Retry every run that the filters of ``list_runs`` find, as ``Run.retry``; the ids of those retried.

        With ``task`` alone its failed runs. ``limit``: no more than this many, newest first. Raises
        ConfigurationError without ``state`` and ``task``.
        """
        runs = chosen_in_bulk("retry_runs", state, task, before, otherwise=RunState.FAILED)
        most = None if limit is None else whole(limit, "retry_runs(limit")
        done, _ = await self._admin.each(
            runs, lambda run_id: self._admin.retry(run_id, force=force), limit=most
        )
        return done

    async def purge(self, older_than: Duration, state: RunState | str | None = None) -> int:
        """Remove runs that ended at least ``older_than`` ago (a timedelta, or seconds), each whole.

        Runs with an effect in doubt stay, and so do all that have not ended. Returns how many went. Raises
        ConfigurationError for a senseless age, and for a state in which nothing has ended.
        """
        age = timedelta(seconds=seconds(older_than, "purge(older_than"))
        states = ENDED if state is None else (known_state(state),)
        if not all(candidate.ended for candidate in states):
            raise ConfigurationError(f"purge(state={state!r}): only ended runs are purged, which it is not")
        return await self._admin.purge(age, states)

    async def resolve(
        self,
        run_id: str,
        effect_key: str,
        answer: Applied | NotApplied,
        *,
        by: str,
        evidence: str | None = None,
        if_requests: int | None = None,
    ) -> None:
        """Decide an effect in doubt; a held run goes on at once. Who and why are stored with it.

        ``if_requests``: the requests that whoever decides has seen; one more since is not what they decided
        on. Raises ActionRefused then; NotInDoubt where there is nothing to decide, with who decided before;
        RunNotFound; DecodingError if the value does not fit the effect's declared result; EncodingError if it
        can't be stored, or takes more than ``max_value_bytes``.
        """
        await self._admin.resolve(
            run_id, effect_key, answer, by=by, evidence=evidence, if_requests=if_requests
        )


_RUN_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def known_state(state: RunState | str) -> RunState:
    """The state of this name. Raises ConfigurationError, with all names, for an unknown one."""
    try:
        return RunState(state)
    except ValueError:
        known = ", ".join(candidate.value for candidate in RunState)
        raise ConfigurationError(f"state {state!r} is not one of {known}") from None


def chosen(state: RunState | str | None, task: Any, before: str | None, limit: int = 0) -> RunFilter:
    """The filter for runs in this state, of this task (or stored name), made before that run.

    Raises ConfigurationError for a ``before`` that no run has for an id: it would be taken for a place in the
    list.
    """
    if before is not None and not _RUN_ID.fullmatch(before):
        raise ConfigurationError(f"before={before!r} is not a run's id; give the id of a run that was listed")
    name = task if task is None or isinstance(task, str) else spec_of(task).name
    return RunFilter(None if state is None else known_state(state), name, limit, before)


def chosen_in_bulk(
    action: str,
    state: RunState | str | None,
    task: Any,
    before: str | None,
    *,
    otherwise: RunState | None = None,
) -> RunFilter:
    """As ``chosen``, for what is done to all of them: a forgotten filter must not mean every run.

    ``otherwise``: the state meant where only the task is named.
    """
    if state is None and task is None:
        raise ConfigurationError(
            f"{action}() without a filter would take every run of every task; say which, as in "
            f"{action}(state='pending') or {action}(task=fulfil)"
        )
    return chosen(otherwise if state is None else state, task, before)
