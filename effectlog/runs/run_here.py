"""``log.run``: creates or finds one run and executes it in the calling process to its end.

Its stored due time decides when it begins, as for every worker: a delay or a retry's pause is neither skipped
by calling again nor lost by being killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

from effectlog import telemetry
from effectlog.context import here_attempt
from effectlog.decorators.task import spec_of
from effectlog.errors import ConfigurationError, EffectLogError
from effectlog.model import AttemptOutcome, RunState
from effectlog.store import commands as c
from effectlog.worker.running import RunningAttempts, task_limits
from effectlog.worker.takeover import dead_owners, end_abandoned, expire

if TYPE_CHECKING:
    from effectlog.engine.runtime import Runtime
    from effectlog.runs.enqueue import Enqueuer
    from effectlog.runs.run import Run
    from effectlog.store.rows import StoredRun
    from effectlog.worker.owner import Owner
    from effectlog.worker.takeover import Abandoned

logger = logging.getLogger("effectlog")

_LOOK_INTERVAL = 0.05
"""Seconds between two looks at a run that somebody else has, or that a limit keeps waiting."""


async def run_here(
    runtime: Runtime,
    enqueuer: Enqueuer,
    owner: Owner,
    task: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Run[Any]:
    """Execute until the run has ended or is held, whoever gets to execute it. Returns its handle."""
    if here_attempt() is not None:
        raise ConfigurationError(
            "log.run(...) inside an attempt would hold this run's place while another one runs; call the "
            "function itself to make it part of this run, or enqueue it"
        )
    executor = RunningAttempts(runtime, owner)
    return await _Inline(runtime, enqueuer, executor, task).run(args, kwargs)


class _Inline:
    """One call of ``log.run``."""

    def __init__(self, runtime: Runtime, enqueuer: Enqueuer, executor: RunningAttempts, task: Any) -> None:
        self._codec = runtime.codec
        self._engine = runtime.engine
        self._enqueuer = enqueuer
        self._executor = executor
        self._task = task
        self._spec = spec_of(task)

    async def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Run[Any]:
        with telemetry.producing("enqueue", self._spec.name, self._engine.store.name, None) as producer:
            create = self._enqueuer.command(self._task, args, kwargs, None, producer.trace)
            (created,), claimed, sent = await self._claim(create.runs[0].id, create)
            run = self._enqueuer.handle(self._spec, create, created, None)
            producer.made([run.id], created=run.created)
        while True:
            if claimed is not None:
                await self._execute(claimed, sent)
            if await self._wait_for_turn(run.id):
                return run
            _, claimed, sent = await self._claim(run.id)
            if claimed is None:
                await asyncio.sleep(
                    _LOOK_INTERVAL
                )  # A limit of the task keeps it waiting, or a peer was faster.

    async def _claim(
        self, run_id: str, *before: c.Command
    ) -> tuple[list[c.Outcome], StoredRun | None, float]:
        """Claim the run after other commands. Returns outcomes, the run if claimed, and when it asked."""
        owner = self._executor.owner
        limits = task_limits({self._spec.name: self._spec})
        claim = c.Claim(owner.id, owner.name, owner.lease, limits, 1, run_id=run_id)
        sent = time.monotonic()
        committing = asyncio.ensure_future(self._engine.commit(*before, claim))
        try:
            *outcomes, claimed = await asyncio.shield(committing)
        except asyncio.CancelledError:
            # The commit goes on, and nobody would execute what it claims.
            await asyncio.shield(asyncio.ensure_future(self._give_back(committing)))
            raise
        taken = claimed.runs if isinstance(claimed, c.Claimed) else ()
        return outcomes, taken[0] if taken else None, sent

    async def _give_back(self, committing: asyncio.Future[list[c.Outcome]]) -> None:
        with contextlib.suppress(EffectLogError):
            claimed = (await committing)[-1]
            if not isinstance(claimed, c.Claimed):
                return
            fences = [c.Fence(run.row.id, run.row.attempt) for run in claimed.runs]
            released = [c.EndAttempt(f, AttemptOutcome.RELEASED, RunState.PENDING) for f in fences]
            await self._engine.commit(*released)

    async def _execute(self, claimed: StoredRun, sent: float) -> None:
        execution = self._executor.start(claimed, self._spec, sent)
        try:
            await asyncio.shield(execution)
        except asyncio.CancelledError:
            await self._executor.release()
            raise

    async def _wait_for_turn(self, run_id: str) -> bool:
        """Wait until the run has ended or is held (True), or may be claimed (False)."""
        shown = 0.0
        while True:
            row = (await self._enqueuer.admin.summary(run_id)).row
            if row.state.ended or row.state is RunState.HELD:
                return True
            if row.state is RunState.RUNNING:
                await self._watch(run_id)
            elif (wait := row.due_in(self._engine.store.clock.wall())) > 0:
                if shown != row.due_at:
                    shown = row.due_at
                    logger.info("effectlog: run %s of %s is due in %.1f s", run_id, self._spec.name, wait)
                await asyncio.sleep(min(wait, 1.0))
            else:
                return False

    async def _watch(self, run_id: str) -> None:
        """Wait until nobody executes the run; end the attempt of an owner that is gone."""
        while (await self._engine.read(self._engine.store.states([run_id]))).get(run_id) is RunState.RUNNING:
            gone = await self._engine.read(self._find_gone(run_id))
            if gone is not None:
                await end_abandoned(self._engine, [gone])
                return
            await asyncio.sleep(_LOOK_INTERVAL)

    async def _find_gone(self, run_id: str) -> Abandoned | None:
        """Runs on the engine's loop."""
        store = self._engine.store
        dead = await dead_owners(store, await store.owners())
        gone = [row for row in await store.lapsed(dead) if row.id == run_id]
        tasks = {row.task: self._spec for row in gone}
        return (await expire(store, gone[0], tasks, self._codec, dead)) if gone else None
