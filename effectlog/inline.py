"""``log.run``: creates or finds one run and executes it in the calling process to its end."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from effectlog import commands as c
from effectlog.context import here_attempt
from effectlog.errors import ConfigurationError
from effectlog.executor import Executor, task_limits
from effectlog.model import RunState
from effectlog.takeover import dead_owners, expire
from effectlog.tasks import spec_of
from effectlog.worker import LIVENESS_INTERVAL

if TYPE_CHECKING:
    from effectlog.engine import Engine
    from effectlog.enqueue import Enqueuer
    from effectlog.lease import Owner
    from effectlog.run import Run
    from effectlog.spec import TaskSpec


async def run_here(
    engine: Engine,
    enqueuer: Enqueuer,
    owner: Owner,
    task: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    max_value_bytes: int,
) -> Run[Any]:
    """Execute until the run has ended or is held, whoever gets to execute it; gives its handle."""
    if here_attempt() is not None:
        raise ConfigurationError(
            "log.run(...) inside an attempt would hold this run's place while another one runs; call the function "
            "itself to make it part of this run, or enqueue it"
        )
    spec = spec_of(task)
    executor = Executor(engine, enqueuer.codec, owner=owner, max_value_bytes=max_value_bytes)
    create = enqueuer.command(task, args, kwargs)
    sent = time.monotonic()
    outcomes = await engine.commit(create, _claim(owner, spec, create.runs[0].id))
    run = enqueuer.handle(spec, create, outcomes[0])
    while True:
        if isinstance(outcomes[-1], c.Claimed) and outcomes[-1].runs:
            await _execute(executor, outcomes[-1], spec, sent)
        if await _wait_for_turn(engine, enqueuer, spec, run.id):
            return run
        sent = time.monotonic()
        outcomes = await engine.commit(_claim(owner, spec, run.id))


def _claim(owner: Owner, spec: TaskSpec, run_id: str) -> c.Claim:
    limits = task_limits({spec.name: spec})
    return c.Claim(owner.id, owner.name, owner.lease, limits, 1, run_id=run_id)


async def _execute(executor: Executor, claimed: c.Claimed, spec: TaskSpec, sent: float) -> None:
    execution = executor.start(claimed.runs[0], spec, sent)
    try:
        await asyncio.shield(execution)
    except asyncio.CancelledError:
        await executor.release()
        raise


async def _wait_for_turn(engine: Engine, enqueuer: Enqueuer, spec: TaskSpec, run_id: str) -> bool:
    """Wait until the run has ended or is held (True), or may be claimed (False)."""
    while True:
        run = await enqueuer.admin.stored(run_id)
        row = run.row
        if row.state.ended or row.state is RunState.HELD:
            return True
        if row.state is RunState.PENDING:
            wait = row.due_at - engine.store.clock.wall()
            if wait <= 0:
                return False
            await asyncio.sleep(min(wait, 1.0))
            continue
        if not await _take_over(engine, enqueuer, spec, run_id):
            await asyncio.sleep(LIVENESS_INTERVAL)


async def _take_over(engine: Engine, enqueuer: Enqueuer, spec: TaskSpec, run_id: str) -> bool:
    """End the attempt of an owner that is gone; False while it is alive."""

    async def find() -> c.EndAttempt | None:
        dead = await dead_owners(engine.store, await engine.store.owners())
        gone = [row for row in await engine.store.lapsed(dead) if row.id == run_id]
        return expire(gone[0], {row.task: spec for row in gone}, enqueuer.codec, dead) if gone else None

    command = await engine.read(find())
    if command is None:
        return False
    await engine.commit(command)
    return True
