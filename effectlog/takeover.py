"""Finding runs whose owner is gone, and deciding what becomes of them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec import Struct

from effectlog import commands as c
from effectlog import telemetry
from effectlog.ending import dead_letter_run
from effectlog.errors import StoreClosed, StoreError
from effectlog.lease import stood_still
from effectlog.model import AttemptOutcome, ErrorInfo, RunState
from effectlog.store.protocol import RUN_LOCKED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from effectlog.codec import Codec
    from effectlog.engine import Engine
    from effectlog.rows import RunRow
    from effectlog.spec import TaskSpec
    from effectlog.store.protocol import Store

logger = logging.getLogger("effectlog")

PROMPT = 0.3
"""Seconds that a round of the claim loop waits for what it takes over, in order to claim it at once."""
_AGAIN = 30.0
"""Seconds before a run is tried again that the store refused to change, such as one whose row is damaged."""


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


async def end_gone(engine: Engine, gone: Gone) -> None:
    """End the attempt. One that somebody else has ended is left alone, and one that somebody keeps locked for now."""
    try:
        (outcome,) = await engine.commit(gone.command)
    except StoreError as error:
        if getattr(error, "reason", "") != RUN_LOCKED:
            raise
        logger.warning(
            "effectlog: run %s of %s can't be taken over yet: %s",
            gone.run.id,
            gone.run.task,
            error,
            extra={"run_id": gone.run.id, "task": gone.run.task},
        )
    else:
        if isinstance(outcome, c.RunMoved):
            gone.tell(outcome)


class Takeovers:
    """Ends attempts one beside the other, so that a run which somebody keeps locked delays nobody else.

    ``over`` is called after each one that took longer than its caller waited.
    """

    def __init__(self, engine: Engine, over: Callable[[], None]) -> None:
        self._engine = engine
        self._over = over
        self._under_way: dict[str, asyncio.Task[None]] = {}

    @property
    def under_way(self) -> bool:
        """Some are not ended yet."""
        return bool(self._under_way)

    async def end(self, gone: Sequence[Gone]) -> bool:
        """Begin to end those that are not under way, and wait for a moment; True if some may have been ended."""
        new = [one for one in gone if one.run.id not in self._under_way]
        if not new:
            return False
        ending = {one.run.id: asyncio.create_task(self._end(one)) for one in new}
        self._under_way |= ending
        done, late = await asyncio.wait(ending.values(), timeout=PROMPT)
        for task in late:
            task.add_done_callback(self._ended_late)
        errors = [error for task in done if (error := task.exception()) is not None]
        if errors:
            raise errors[0]
        return bool(done)

    async def _end(self, gone: Gone) -> None:
        try:
            await end_gone(self._engine, gone)
        except StoreError as error:
            if error.transient or isinstance(error, StoreClosed):
                raise
            logger.error(  # noqa: TRY400 - the store's words are what counts here
                "effectlog: run %s of %s can't be taken over: %s", gone.run.id, gone.run.task, error
            )
            await asyncio.sleep(_AGAIN)
        finally:
            del self._under_way[gone.run.id]

    def _ended_late(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("effectlog: a takeover failed and is tried again: %s", error)
        self._over()

    def stop(self) -> None:
        """Wait for none any more; what was handed in is done all the same."""
        for task in self._under_way.values():
            task.cancel()


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
