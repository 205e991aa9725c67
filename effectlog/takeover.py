"""Finding runs whose owner is gone, and deciding what becomes of them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from effectlog import commands as c
from effectlog.ending import dead_letter_run
from effectlog.model import AttemptOutcome, ErrorInfo, RunState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from effectlog.codec import Codec
    from effectlog.rows import RunRow
    from effectlog.spec import TaskSpec
    from effectlog.store.protocol import Store

logger = logging.getLogger("effectlog")


async def dead_owners(store: Store, owners: Mapping[str, str]) -> frozenset[str]:
    """Those of the owners (each with the clock of its lease) that are known to be gone."""
    here = store.clock.identity
    same = frozenset(owner for owner, clock in owners.items() if clock == here)
    other = frozenset(owners) - same
    dead = await store.liveness.dead(same) if same else frozenset()
    return dead | (await store.liveness.dead(other, rebooted=True) if other else frozenset())


async def expire(
    store: Store, run: RunRow, tasks: Mapping[str, TaskSpec], codec: Codec, dead: frozenset[str]
) -> c.EndAttempt:
    """The command that ends a gone owner's attempt: another attempt, or a dead letter after too many."""
    fence = c.Fence(run.id, run.attempt)
    how = "its process died" if run.owner in dead else "its lease ran out"
    crashes = run.crashes + 1
    error = ErrorInfo(
        "effectlog.WorkerLost",
        f"worker lost: attempt {run.attempt} did not end by itself ({how}; crash {crashes})",
    )
    task = tasks.get(run.task)
    failed = task is not None and task.retry.ends_after_crash(crashes)
    on_dead = None
    if task is not None and failed and task.on_dead is not None and (whole := await store.get(run.id)):
        on_dead = dead_letter_run(task, whole, error, codec)
    logger.info(
        "effectlog: run %s of %s is taken over from attempt %s: %s",
        run.id,
        run.task,
        run.attempt,
        how,
        extra={"run_id": run.id, "task": run.task, "attempt": run.attempt},
    )
    return c.EndAttempt(
        fence,
        AttemptOutcome.EXPIRED,
        RunState.FAILED if failed else RunState.PENDING,
        guard=c.Guard.LAPSED,
        dead_owners=dead,
        error=error,
        on_dead=on_dead,
    )


async def take_over(
    store: Store, tasks: Mapping[str, TaskSpec], codec: Codec, dead: frozenset[str]
) -> list[c.EndAttempt]:
    """The commands that end every attempt whose owner is gone."""
    return [await expire(store, run, tasks, codec, dead) for run in await store.lapsed(dead)]
