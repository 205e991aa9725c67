"""Read, cancel, retry, resolve and purge stored runs: what ``RunOperations``, ``Run`` and the CLI do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from effectlog import telemetry
from effectlog.attempt.stop_reason import StopReason
from effectlog.codec import convert
from effectlog.decorators.registry import declared_effect
from effectlog.errors import ActionRefused, ConfigurationError, NotInDoubt, RunNotFound
from effectlog.model import Applied, NotApplied, RunRecord, RunState
from effectlog.runs.records import run_record
from effectlog.runs.wait import StateWatch
from effectlog.store import commands as c
from effectlog.validation import is_storable
from effectlog.worker import owner
from effectlog.worker.maintenance import purge
from effectlog.worker.takeover import dead_owners

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable
    from datetime import timedelta

    from effectlog.engine.runtime import Runtime
    from effectlog.store.protocol import RunFilter
    from effectlog.store.rows import EffectRow, RunRow, StoredRun, StoredSummary

_PAGE = 500

S = TypeVar("S")


class Administration:
    """Operations on stored runs, for the log, its handles and the command line."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.engine = runtime.engine
        self.codec = runtime.codec
        self.watch = StateWatch(runtime.engine)

    async def stored(self, run_id: str) -> StoredRun:
        """A run whole, with all its values. Raises RunNotFound."""
        return await self._existing(run_id, self.engine.store.get)

    async def summary(self, run_id: str) -> StoredSummary:
        """A run as a list shows it; reads no values. Raises RunNotFound."""
        return await self._existing(run_id, self.engine.store.summary)

    async def _existing(self, run_id: str, read: Callable[[str], Coroutine[Any, Any, S | None]]) -> S:
        if not isinstance(run_id, str):
            raise ConfigurationError(f"a run's id is a text, not {run_id!r}")
        if not is_storable(run_id):
            raise not_found(run_id)
        run = await self.engine.read(read(run_id))
        if run is None:
            raise not_found(run_id)
        return run

    async def record(self, run_id: str) -> RunRecord:
        """Everything stored about a run. Raises RunNotFound."""
        return await self.record_of(await self.stored(run_id))

    async def record_of(self, run: StoredRun) -> RunRecord:
        """The record of a run that was read; its effects are in doubt where its owner is known to be gone."""
        gone = await self.gone([run.row])
        return run_record(run, self.codec, owner_gone=run.row.id in gone)

    async def find(self, query: RunFilter) -> list[StoredSummary]:
        """Runs for a list; reads no values."""
        return await self.engine.read(self.engine.store.find(query))

    async def gone(self, runs: Iterable[RunRow]) -> frozenset[str]:
        """The ids of the running runs among these that nobody owns any more; reads only if one is running."""
        if not any(run.state is RunState.RUNNING for run in runs):
            return frozenset()
        return frozenset(row.id for row in await self.engine.read(self.lapsed()))

    async def lapsed(self) -> list[RunRow]:
        """The running runs that nobody owns any more; on the engine's loop."""
        store = self.engine.store
        return await store.lapsed(await dead_owners(store, await store.owners()))

    async def _dead(self) -> frozenset[str]:
        async def ask() -> frozenset[str]:
            return await dead_owners(self.engine.store, await self.engine.store.owners())

        return await self.engine.read(ask())

    async def cancel(self, run_id: str, *, force: bool = False) -> c.RunMoved:
        """Cancel a run, or ask its live owner to; durable on return, with the state that it is in then.

        ``force`` fences a live owner out. Attempts in this process hear of it at once. Raises RunNotFound.
        """
        here = owner.attempts_at(run_id)
        outcome = await self._move(c.CancelRun(run_id, force))
        if not isinstance(outcome, c.RunMoved):
            raise not_found(run_id)
        if outcome.changed:
            stop_reason = StopReason.CANCELLED if outcome.state is RunState.RUNNING else StopReason.LOST
            for attempt in here:
                attempt.end(stop_reason)
        return outcome

    async def retry(self, run_id: str, *, force: bool = False) -> None:
        """Make a failed or cancelled run pending again, with a new round of attempts; durable on return.

        ``force`` fences a live owner out first. Raises RunNotFound, and ActionRefused with the reason.
        """
        # Those of now: what claims the run once it is pending again must not be stopped.
        here = owner.attempts_at(run_id)
        outcome = await self._move(c.RetryRun(run_id, force))
        if isinstance(outcome, c.RunMoved):
            for attempt in here:
                attempt.end(StopReason.LOST)
            return
        if not isinstance(outcome, c.Refused) or outcome.reason is c.Refusal.NOT_FOUND:
            raise not_found(run_id)
        if outcome.reason is c.Refusal.OWNER_ALIVE:
            reason = "a live owner is executing it; wait, cancel it, or use force, which fences the owner out"
        else:
            reason = f"it is {outcome.state}, and only failed and cancelled runs are retried"
            if outcome.state is RunState.HELD:
                reason += "; resolve its effect in doubt instead"
        raise ActionRefused(f"run {run_id} is not retried: {reason}", run_id=run_id, reason=reason)

    async def _move(self, command: c.CancelRun | c.RetryRun) -> c.Outcome:
        """Apply a command; where somebody owns the run, again with the knowledge of which owners are dead."""
        (outcome,) = await self.engine.commit(command)
        owned = isinstance(outcome, c.Refused | c.RunMoved) and outcome.state is RunState.RUNNING
        if owned and (dead := await self._dead()):
            (outcome,) = await self.engine.commit(replace(command, dead_owners=dead))
        return outcome

    async def each(
        self, query: RunFilter, action: Callable[[str], Awaitable[object]], *, limit: int | None = None
    ) -> tuple[list[str], dict[str, str]]:
        """Apply an action to every run that the filter finds, at most ``limit`` of them.

        Returns the ids of those done, and for each of the others why not.

        A page at a time, side by side, so that their commands share transactions.
        """
        done: list[str] = []
        refused: dict[str, str] = {}
        seen: set[str] = set()
        before = query.before
        while limit is None or len(seen) < limit:
            runs = await self.find(replace(query, limit=_PAGE, before=before))
            new = [run.row.id for run in runs if run.row.id not in seen]
            new = new if limit is None else new[: limit - len(seen)]
            seen.update(new)
            results = await asyncio.gather(*map(action, new), return_exceptions=True)
            for run_id, result in zip(new, results, strict=True):
                if not isinstance(result, BaseException):
                    done.append(run_id)
                elif isinstance(result, ActionRefused | RunNotFound):
                    refused[run_id] = str(result)
                else:
                    raise result
            if len(runs) < _PAGE:
                break
            before = runs[-1].row.id
        return done, refused

    async def resolve(
        self,
        run_id: str,
        effect_key: str,
        answer: Applied | NotApplied,
        *,
        by: str,
        evidence: str | None,
        if_requests: int | None,
    ) -> None:
        """Settle an effect in doubt by a person's answer; durable on return, and a held run goes on.

        Arguments and errors are those of ``RunOperations.resolve``.
        """
        if not isinstance(answer, Applied | NotApplied):
            raise ConfigurationError(f"resolve takes Applied(value) or NotApplied(), not {answer!r}")
        if not by or not by.strip():
            raise ConfigurationError("resolve needs by=: who decided this is stored with the answer")
        stored = await self.stored(run_id)
        effect = next((effect for effect in stored.effects if effect.key == effect_key), None)
        if if_requests is not None and effect is not None and effect.requests != if_requests:
            raise _changed(run_id, effect_key, f"it has {effect.requests} requests, not {if_requests}")
        result = self._applied(answer.value, effect) if isinstance(answer, Applied) else None
        command = c.SettleEffect(
            run_id,
            effect_key,
            isinstance(answer, Applied),
            by=by,
            result=result,
            evidence=evidence,
            new_operation=isinstance(answer, NotApplied) and answer.new_operation,
            seen=effect.version if effect is not None and if_requests is not None else None,
            dead_owners=await self._dead(),
        )
        with telemetry.resolving(stored, effect):
            (outcome,) = await self.engine.commit(command)
            if isinstance(outcome, c.Refused):
                if outcome.reason is c.Refusal.CHANGED:
                    raise _changed(run_id, effect_key, "it changed this very moment")
                raise _not_in_doubt(run_id, effect_key, outcome, [e.key for e in stored.effects])

    def _applied(self, value: Any, effect: EffectRow | None) -> bytes:
        """What is stored of the value that somebody says an effect has."""
        declared = declared_effect(effect.name) if effect else None
        applied = convert(value, declared.returns.value) if declared else value
        return self._runtime.stored(applied, "the applied value takes", path="value")

    async def purge(
        self,
        older_than: timedelta,
        states: tuple[RunState, ...],
        progress: Callable[[int], object] | None = None,
    ) -> int:
        """Remove ended runs in batches that leave room for others' writes between them.

        ``progress`` is called after each batch with the number removed so far. Returns that of all.
        """
        total = 0
        async for count in purge(self.engine, older_than.total_seconds(), states):
            total += count
            if progress is not None:
                progress(total)
        return total


def not_found(run_id: str) -> RunNotFound:
    """The error for an id that no stored run has."""
    return RunNotFound(f"no run {run_id} is stored here; it may have been purged", run_id=run_id)


def _changed(run_id: str, key: str, how: str) -> ActionRefused:
    reason = f"{how}, so it is not what was decided on; look at it again with 'effectlog show {run_id}'"
    return ActionRefused(
        f"effect {key!r} of run {run_id} is not resolved: {reason}", run_id=run_id, reason=reason
    )


def _not_in_doubt(run_id: str, key: str, refused: c.Refused, keys: list[str]) -> Exception:
    effect = refused.effect
    if effect is None:
        known = ", ".join(repr(k) for k in keys) or "none"
        return NotInDoubt(
            f"run {run_id} has no effect {key!r}; its effects are {known}",
            run_id=run_id,
            effect_key=key,
            reason="not begun",
            state=None,
            resolved_by=None,
        )
    executed = refused.reason is c.Refusal.BEING_EXECUTED
    if executed:
        why = "a live owner is executing it right now; wait for its outcome"
    elif effect.resolved_by:
        why = f"it is {effect.state} already, resolved by {effect.resolved_by}"
    else:
        why = f"it is {effect.state}, not in doubt"
    return NotInDoubt(
        f"effect {key!r} of run {run_id} is not resolved: {why}",
        run_id=run_id,
        effect_key=key,
        reason="being executed" if executed else "settled",
        state=str(effect.state),
        resolved_by=effect.resolved_by,
    )
