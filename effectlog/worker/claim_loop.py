"""The claim loop of one worker: takes over from gone owners, and claims what is due while there is room.

Lives on the worker's loop. It looks when the store changed, when something becomes due and at short
intervals; it never looks for work that it has no room for. The invariant: what it claimed is executed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from typing import TYPE_CHECKING

from effectlog.errors import EffectLogError, StoreClosed, StoreError, StoreTrouble
from effectlog.store import commands as c
from effectlog.store.protocol import TellsNextExpiry
from effectlog.worker.running import task_limits
from effectlog.worker.takeover import Takeovers, dead_owners, find_abandoned, forget_owners

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from effectlog.decorators.spec import TaskSpec
    from effectlog.engine.runtime import Runtime
    from effectlog.worker.running import RunningAttempts
    from effectlog.worker.takeover import Abandoned

logger = logging.getLogger("effectlog")

LIVENESS_INTERVAL = 0.04
"""Seconds between two looks at whether other owners' processes are gone, while others own runs."""
LEASE_INTERVAL = 0.25
"""Seconds between two looks for expired leases while others own runs, at most: the next end is known."""
LEAST = 0.01
"""Seconds between two looks at leases at least."""
IDLE_INTERVAL = 1.0
"""Seconds after which it looks although nothing has reported a change."""
CLAIM_LIMIT = 100
"""Runs of one claim at most, so that a claim never keeps a heartbeat waiting."""
_LONGEST_PAUSE = 5.0


class ClaimLoop:
    """Claims for one owner until ``stop``."""

    def __init__(
        self,
        runtime: Runtime,
        executor: RunningAttempts,
        tasks: Callable[[], Mapping[str, TaskSpec]],
        concurrency: int,
    ) -> None:
        self.looked_at: float | None = None
        """When it last looked for work and could have claimed it, by the wall clock."""
        self.looked = asyncio.Event()
        """Set once it has looked for the first time."""
        self.store_gone: asyncio.Future[StoreError] = asyncio.get_running_loop().create_future()
        """Why it claims nothing more: the store is not the one that was opened."""
        self._runtime = runtime
        self._engine = runtime.engine
        self._executor = executor
        self._tasks = tasks
        self._concurrency = concurrency
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._poked = True
        self._plenty = False
        """The last claim got all that it asked for: there may be more, so the next need not look first."""
        self._owners: dict[str, str] = {}
        self._owners_changed = True
        self._owners_at = self._leases_at = self._claim_at = 0.0
        self._lapse_at = math.inf
        self._takeovers = Takeovers(runtime.engine, self.poke)
        runtime.engine.changes.listen(self.poke)
        self._running = self._loop.create_task(self._run())

    @property
    def task_names(self) -> tuple[str, ...]:
        """What it can execute, by every stored name."""
        return tuple(sorted(self._tasks()))

    async def stop(self) -> None:
        """Let the round that is under way end: what it claims must be executed."""
        self._stopping.set()
        self._wake.set()
        self._engine.changes.unlisten(self.poke)
        await asyncio.wait({self._running})
        self._takeovers.stop()

    def poke(self) -> None:
        """Something changed; callable from any thread."""
        if not self._poked:
            self._poked = True
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake.set)

    async def _run(self) -> None:
        pause = LIVENESS_INTERVAL
        while not self._stopping.is_set():
            try:
                wait = await self._round()
            except StoreClosed:
                return
            except Exception as error:
                if isinstance(error, StoreError) and error.reason is StoreTrouble.STORE_GONE:
                    name = self._executor.owner.name
                    # Without a traceback: the store's words are what counts here.
                    logger.error("effectlog: %s claims nothing more: %s", name, error)  # noqa: TRY400
                    self.store_gone.set_result(error)
                    return
                pause = min(pause * 2, _LONGEST_PAUSE)
                known = isinstance(error, EffectLogError)
                name = self._executor.owner.name
                logger.warning(
                    "effectlog: %s can't claim and tries again: %s", name, error, exc_info=not known
                )
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._stopping.wait()  # However often it is poked.
            else:
                pause = LIVENESS_INTERVAL
                await self._sleep(wait)

    async def _sleep(self, seconds: float) -> None:
        timer = self._loop.call_later(max(0.0, seconds), self._wake.set)
        await self._wake.wait()
        timer.cancel()
        self._wake.clear()

    async def _round(self) -> float:
        """Take over, then claim. Returns the seconds until the next round is due."""
        tasks = self._tasks()
        if self._poked:
            self._poked = False
            self._owners_changed = True
            self._claim_at = 0.0  # Stays so if this round fails.
        if await self._take_over(tasks) or time.monotonic() >= self._claim_at:
            self._claim_at = 0.0
            next_in = await self._claim(tasks)
            self._claim_at = time.monotonic() + min(IDLE_INTERVAL, next_in)
        next_look = self._owners_at + LIVENESS_INTERVAL if self._watching else self._leases_at
        return min(next_look, self._leases_at, self._claim_at) - time.monotonic()

    # --- others' runs --------------------------------------------------------------------------

    @property
    def _watching(self) -> bool:
        """Others own runs, or may own some by now."""
        return self._owners_changed or any(owner != self._executor.owner.id for owner in self._owners)

    async def _take_over(self, tasks: Mapping[str, TaskSpec]) -> bool:
        now = time.monotonic()
        leases_due = now >= self._leases_at
        if not leases_due and not (self._watching and now >= self._owners_at + LIVENESS_INTERVAL):
            return False
        self._owners_at = now
        gone, dead = await self._engine.read(self._find_gone(tasks, leases_due=leases_due))
        if leases_due:
            self._leases_at = now + IDLE_INTERVAL
        if self._watching:
            self._leases_at = min(self._leases_at, now + LEASE_INTERVAL, max(self._lapse_at, now + LEAST))
        ended = await self._takeovers.end(gone)
        self._owners_changed |= bool(ended or dead)
        if not self._takeovers.unfinished:
            # Forgotten sooner, they would not count as dead any more where their runs are still to be had.
            await forget_owners(self._engine, dead)
        return ended

    async def _find_gone(
        self, tasks: Mapping[str, TaskSpec], *, leases_due: bool
    ) -> tuple[list[Abandoned], frozenset[str]]:
        """Runs on the engine's loop: several reads for one hop."""
        store = self._engine.store
        if self._owners_changed or leases_due:
            self._owners_changed = False
            self._owners = await store.owners()
        others = {owner: clock for owner, clock in self._owners.items() if owner != self._executor.owner.id}
        dead = await dead_owners(store, others) if others else frozenset()
        if leases_due:
            self._lapse_at = await self._next_lapse() if others else math.inf
        if not dead and not leases_due:
            return [], dead
        return await find_abandoned(store, tasks, self._runtime.codec, dead), dead

    async def _next_lapse(self) -> float:
        """The monotonic time at which the next lease ends; infinity if the store does not know."""
        store = self._engine.store
        seconds = await store.next_lapse() if isinstance(store, TellsNextExpiry) else None
        return math.inf if seconds is None else time.monotonic() + seconds

    # --- due runs ------------------------------------------------------------------------------

    async def _claim(self, tasks: Mapping[str, TaskSpec]) -> float:
        """Claim while something is due and there is room; the seconds until more becomes due."""
        names = list(tasks)
        next_in = IDLE_INTERVAL
        while not self._stopping.is_set() and (free := self._concurrency - len(self._executor)) > 0:
            asked = not self._plenty
            if asked:
                due = await self._engine.read(self._engine.store.due(names))
                next_in = IDLE_INTERVAL if due.next_in is None else due.next_in
                if not due.now:
                    break
            limit = min(free, CLAIM_LIMIT)
            claimed = await self._claim_some(tasks, limit)
            self._plenty = claimed == limit
            # Due, but not to be had: a limit or a suspect keeps it waiting, and its end will wake us.
            if asked and claimed == 0:
                break
        self.looked_at = self._engine.store.clock.wall()
        self.looked.set()
        return next_in

    async def _claim_some(self, tasks: Mapping[str, TaskSpec], limit: int) -> int:
        owner = self._executor.owner
        suspects = not self._executor.has_suspect
        sent = time.monotonic()
        claim = c.Claim(owner.id, owner.name, owner.lease, task_limits(tasks), limit, suspects)
        (outcome,) = await self._engine.commit(claim)
        if not isinstance(outcome, c.Claimed):
            return 0
        for run in outcome.runs:
            execution = self._executor.start(run, tasks[run.row.task], sent)
            execution.add_done_callback(lambda _: self.poke())
        return len(outcome.runs)
