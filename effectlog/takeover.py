"""Finding runs whose owner is gone, and deciding what becomes of them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec import Struct

from effectlog import commands as c
from effectlog import telemetry
from effectlog.ending import dead_letter_run
from effectlog.lease import stood_still
from effectlog.model import AttemptOutcome, ErrorInfo, RunState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from effectlog.codec import Codec
    from effectlog.engine import Engine
    from effectlog.rows import RunRow
    from effectlog.spec import TaskSpec
    from effectlog.store.protocol import Store

logger = logging.getLogger("effectlog")


class Gone(Struct, frozen=True):
    """A run whose owner is gone, why, and the command that ends its attempt."""

    run: RunRow
    reason: str
    command: c.EndAttempt

    def tell(self, moved: c.RunMoved) -> None:
        """Say that it was taken over; by this process, if several found it."""
        logger.info(
            "effectlog: run %s of %s is taken over from attempt %s: %s",
            self.run.id,
            self.run.task,
            self.run.attempt,
            self.reason,
            extra={"run_id": self.run.id, "task": self.run.task, "attempt": self.run.attempt},
        )
        telemetry.taken_over(self.run, self.reason, self.command, moved)


async def end_gone(engine: Engine, gone: Sequence[Gone]) -> None:
    """End these attempts; one that somebody else has ended meanwhile is left alone."""
    outcomes = await engine.commit(*(one.command for one in gone))
    for one, outcome in zip(gone, outcomes, strict=True):
        if isinstance(outcome, c.RunMoved):
            one.tell(outcome)


async def dead_owners(store: Store, owners: Mapping[str, str]) -> frozenset[str]:
    """Those of the owners (each with the clock of its lease) that are known to be gone."""
    here = store.clock.identity
    same = frozenset(owner for owner, clock in owners.items() if clock == here)
    other = frozenset(owners) - same
    dead = await store.liveness.dead(same) if same else frozenset()
    return dead | (await store.liveness.dead(other, rebooted=True) if other else frozenset())


async def expire(
    store: Store, run: RunRow, tasks: Mapping[str, TaskSpec], codec: Codec, dead: frozenset[str]
) -> Gone:
    """What ends a gone owner's attempt: another attempt, or a dead letter after too many."""
    fence = c.Fence(run.id, run.attempt)
    how = "its process died" if run.owner in dead else "its lease ran out"
    if still := stood_still(run.owner or ""):
        how += f" while its process stood still for {still:.1f} s"
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
    reason = "released" if run.releasing else "process dead" if run.owner in dead else "expired"
    command = c.EndAttempt(
        fence,
        AttemptOutcome.EXPIRED,
        RunState.FAILED if failed else RunState.PENDING,
        guard=c.Guard.LAPSED,
        dead_owners=dead,
        error=error,
        on_dead=on_dead,
    )
    return Gone(run, reason, command)


async def take_over(
    store: Store, tasks: Mapping[str, TaskSpec], codec: Codec, dead: frozenset[str]
) -> list[Gone]:
    """What ends every attempt whose owner is gone."""
    return [await expire(store, run, tasks, codec, dead) for run in await store.lapsed(dead)]
