"""What people and programs do with stored runs: read, cancel, retry, resolve, purge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from effectlog import commands as c
from effectlog import lease
from effectlog.attempt import Ending
from effectlog.codec import Codec, convert
from effectlog.errors import ActionRefused, ConfigurationError, NotInDoubt, RunNotFound
from effectlog.model import Applied, NotApplied, RunRecord, RunState
from effectlog.records import run_record
from effectlog.run import Run, not_found
from effectlog.store.protocol import RunFilter
from effectlog.takeover import dead_owners
from effectlog.watch import StateWatch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from effectlog.engine import Engine
    from effectlog.rows import StoredRun
    from effectlog.spec import Annotation

_PAGE = 500


class Administration:
    """Operations on stored runs, for the log, its handles and the command line."""

    def __init__(self, engine: Engine, codec: Codec) -> None:
        self.engine = engine
        self.codec = codec
        self.watch = StateWatch(engine)

    async def stored(self, run_id: str) -> StoredRun:
        run = await self.engine.read(self.engine.store.get(run_id))
        if run is None:
            raise not_found(run_id)
        return run

    async def record(self, run_id: str) -> RunRecord:
        return (await self._records([await self.stored(run_id)]))[0]

    async def find(self, query: RunFilter) -> list[RunRecord]:
        return await self._records(await self.engine.read(self.engine.store.find(query)))

    async def _records(self, runs: list[StoredRun]) -> list[RunRecord]:
        gone: frozenset[str] = frozenset()
        if any(run.row.state is RunState.RUNNING for run in runs):
            gone = frozenset(row.id for row in await self.engine.read(self._lapsed()))
        return [run_record(run, self.codec, owner_gone=run.row.id in gone) for run in runs]

    async def _lapsed(self) -> list[Any]:
        store = self.engine.store
        return list(await store.lapsed(await dead_owners(store, await store.owners())))

    async def _dead(self) -> frozenset[str]:
        async def ask() -> frozenset[str]:
            return await dead_owners(self.engine.store, await self.engine.store.owners())

        return await self.engine.read(ask())

    async def cancel(self, run_id: str, *, force: bool = False) -> c.RunMoved:
        (outcome,) = await self.engine.commit(c.CancelRun(run_id, force, await self._dead()))
        if not isinstance(outcome, c.RunMoved):
            raise not_found(run_id)
        if outcome.changed:
            lease.tell(run_id, Ending.CANCELLED if outcome.state is RunState.RUNNING else Ending.LOST)
        return outcome

    async def retry(self, run_id: str, *, force: bool = False) -> None:
        (outcome,) = await self.engine.commit(c.RetryRun(run_id, force, await self._dead()))
        if isinstance(outcome, c.RunMoved):
            lease.tell(run_id, Ending.LOST)
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

    async def each(self, query: RunFilter, action: Any) -> tuple[list[str], dict[str, str]]:
        """Apply an action to every run that the filter finds; those done, and why the others were not."""
        done: list[str] = []
        refused: dict[str, str] = {}
        before = query.before
        while True:
            page = RunFilter(query.state, query.task, _PAGE, before)
            runs = await self.engine.read(self.engine.store.find(page))
            for run in runs:
                try:
                    await action(run.row.id)
                except (ActionRefused, RunNotFound) as error:
                    refused[run.row.id] = str(error)
                else:
                    done.append(run.row.id)
            if len(runs) < _PAGE:
                return done, refused
            before = runs[-1].row.id

    async def resolve(
        self,
        run_id: str,
        effect_key: str,
        answer: Applied | NotApplied,
        *,
        by: str,
        evidence: str | None,
        returns: Mapping[str, Annotation],
    ) -> None:
        if not isinstance(answer, Applied | NotApplied):
            raise ConfigurationError(f"resolve takes Applied(value) or NotApplied(), not {answer!r}")
        if not by or not by.strip():
            raise ConfigurationError("resolve needs by=: who decided this is stored with the answer")
        stored = await self.stored(run_id)
        effect = next((effect for effect in stored.effects if effect.key == effect_key), None)
        result = None
        if isinstance(answer, Applied):
            annotation = returns.get(effect.name) if effect else None
            value = convert(answer.value, annotation.value) if annotation else answer.value
            result = self.codec.encode(value)
        (outcome,) = await self.engine.commit(
            c.SettleEffect(
                run_id,
                effect_key,
                isinstance(answer, Applied),
                by=by,
                result=result,
                evidence=evidence,
                new_operation=isinstance(answer, NotApplied) and answer.new_operation,
                dead_owners=await self._dead(),
            )
        )
        if isinstance(outcome, c.Refused):
            raise _not_in_doubt(run_id, effect_key, outcome, [e.key for e in stored.effects])

    async def purge(self, older_than: timedelta, states: tuple[RunState, ...]) -> int:
        """Remove ended runs in batches that leave room for others' writes between them."""
        total = 0
        while True:
            (outcome,) = await self.engine.commit(c.Purge(older_than.total_seconds(), states, _PAGE))
            count = outcome.count if isinstance(outcome, c.Purged) else 0
            total += count
            if count < _PAGE:
                return total

    def handle(self, run_id: str) -> Run[Any]:
        return Run(self, run_id)


def _not_in_doubt(run_id: str, key: str, refused: c.Refused, keys: list[str]) -> Exception:
    effect = refused.effect
    if effect is None:
        known = ", ".join(repr(k) for k in keys) or "none"
        return NotInDoubt(
            f"run {run_id} has no effect {key!r}; its effects are {known}",
            run_id=run_id,
            effect_key=key,
            state=None,
            resolved_by=None,
        )
    if refused.reason is c.Refusal.BEING_EXECUTED:
        why = "a live owner is executing it right now; wait for its outcome"
    elif effect.resolved_by:
        why = f"it is {effect.state} already, resolved by {effect.resolved_by}"
    else:
        why = f"it is {effect.state}, not in doubt"
    return NotInDoubt(
        f"effect {key!r} of run {run_id} is not resolved: {why}",
        run_id=run_id,
        effect_key=key,
        state=str(effect.state),
        resolved_by=effect.resolved_by,
    )
