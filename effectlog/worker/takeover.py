"""Finding runs whose owner is gone, and deciding what becomes of them."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from msgspec import Struct

from effectlog import telemetry
from effectlog.engine.queue import is_busy
from effectlog.errors import StoreClosed, StoreError, StoreTrouble
from effectlog.model import WORKER_LOST, AttemptOutcome, ErrorInfo, RunState
from effectlog.store import commands as c
from effectlog.worker.outcome import dead_letter_run
from effectlog.worker.owner import why_lapsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from effectlog.codec import Codec
    from effectlog.decorators.spec import TaskSpec
    from effectlog.engine.engine import Engine
    from effectlog.store.protocol import Store
    from effectlog.store.rows import RunRow

logger = logging.getLogger("effectlog")

PROMPT = 0.3
"""Seconds that a round of the claim loop waits for what it takes over, in order to claim it at once."""
_AGAIN = 30.0
"""Seconds before a run is tried again that the store refused to change, such as one whose row is damaged."""


class Abandoned(Struct, frozen=True):
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


async def end_abandoned(engine: Engine, gone: Sequence[Abandoned]) -> frozenset[str]:
    """End abandoned attempts, but for those that somebody else has ended meanwhile.

    Returns the ids of runs whose row another transaction holds.
    """
    try:
        outcomes = await engine.read(engine.commit_beside(*(one.command for one in gone)))
    except StoreError as error:
        if error.reason is not StoreTrouble.RUN_LOCKED:
            raise
        return frozenset(one.run.id for one in gone)
    pairs = list(zip(gone, outcomes, strict=True))
    for one, outcome in pairs:
        if isinstance(outcome, c.RunMoved):
            one.tell(outcome)
    return frozenset(one.run.id for one, outcome in pairs if is_busy(outcome))


async def forget_owners(engine: Engine, dead: Iterable[str]) -> None:
    """Remove what dead owners left: their workers' rows first, then the proof that they are dead.

    A row without its proof would show a killed worker as alive.
    """
    if owners := sorted(dead):
        await engine.commit(*map(c.RemoveWorker, owners))
        await engine.read(_forget(engine, owners))


async def _forget(engine: Engine, owners: Iterable[str]) -> None:
    """Runs on the engine's loop: one hop for all of them."""
    for owner in owners:
        await engine.store.liveness.forget(owner)


class Takeovers:
    """Ends the attempts of gone owners; what can't be ended keeps neither other takeovers nor claims waiting.

    ``over`` is called after a takeover that took longer than its caller waited for.
    """

    def __init__(self, engine: Engine, over: Callable[[], None]) -> None:
        self._engine = engine
        self._over = over
        self._under_way: dict[str, asyncio.Task[bool]] = {}
        self._locked: set[str] = set()
        self._refused: dict[str, float] = {}
        """Runs that the store refused to change, with the time of the next try."""

    @property
    def unfinished(self) -> bool:
        """There are runs of gone owners that could not be ended yet."""
        return bool(self._under_way or self._locked or self._refused)

    async def end(self, gone: Sequence[Abandoned]) -> bool:
        """Begin to end those that are not under way, and wait for a moment; True if some were ended."""
        now = time.monotonic()
        self._refused = {run_id: again for run_id, again in self._refused.items() if again > now}
        new = [one for one in gone if one.run.id not in self._under_way.keys() | self._refused.keys()]
        if not new:
            return False
        task = asyncio.create_task(self._end(new))
        self._under_way |= dict.fromkeys((one.run.id for one in new), task)
        known_locked = all(one.run.id in self._locked for one in new)
        done, _ = await asyncio.wait({task}, timeout=0 if known_locked else PROMPT)
        if not done:
            task.add_done_callback(self._ended_late)
            return False
        return task.result()

    async def _end(self, gone: Sequence[Abandoned]) -> bool:
        runs = {one.run.id for one in gone}
        try:
            locked = await end_abandoned(self._engine, gone)
            self._tell_locked(one for one in gone if one.run.id in locked - self._locked)
            self._locked = (self._locked - runs) | locked
            return len(locked) < len(gone)
        except StoreError as error:
            reason = error.reason
            if (
                error.transient
                or isinstance(error, StoreClosed)
                or reason in (StoreTrouble.TAKES_NO_WRITES, StoreTrouble.STORE_GONE)
            ):
                raise  # It is the store's trouble, and no run's.
            return await self._end_apart(gone, error)
        finally:
            for run_id in runs:
                self._under_way.pop(run_id, None)

    async def _end_apart(self, gone: Sequence[Abandoned], error: StoreError) -> bool:
        """Something was refused for good, such as a damaged row: the others must not stay with it."""
        if len(gone) > 1:
            return any([await self._end([one]) for one in gone])
        run = gone[0].run
        logger.error("effectlog: run %s of %s can't be taken over: %s", run.id, run.task, error)
        self._refused[run.id] = time.monotonic() + _AGAIN
        return False

    def _tell_locked(self, gone: Iterable[Abandoned]) -> None:
        for one in gone:
            logger.warning(
                "effectlog: run %s of %s can't be taken over yet: its row is kept locked by somebody "
                "else's open transaction; find the session that is idle in a transaction and end it",
                one.run.id,
                one.run.task,
                extra={"run_id": one.run.id, "task": one.run.task},
            )

    def _ended_late(self, task: asyncio.Task[bool]) -> None:
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            logger.warning("effectlog: a takeover failed and is tried again: %s", error)
        elif task.result():
            self._over()

    def stop(self) -> None:
        """Stop waiting; what was handed in is done all the same."""
        for task in set(self._under_way.values()):
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
) -> Abandoned:
    """What ends a gone owner's attempt: another attempt, or a dead letter after too many."""
    fence = c.Fence(run.id, run.attempt)
    how = "its process died" if run.owner in dead else "its lease ran out"
    how += why_lapsed(run.owner or "")
    crashes = run.crashes + 1
    error = ErrorInfo(
        WORKER_LOST,
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
    return Abandoned(run, reason, command)


async def find_abandoned(
    store: Store, tasks: Mapping[str, TaskSpec], codec: Codec, dead: frozenset[str]
) -> list[Abandoned]:
    """What ends every attempt whose owner is gone."""
    return [await expire(store, run, tasks, codec, dead) for run in await store.lapsed(dead)]
