"""A worker's side work: it reports that it is alive, clears away what dead workers left, purges by age.

None of it decides anything about runs that have not ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from typing import TYPE_CHECKING

from effectlog.errors import EffectLogError, StoreClosed, StoreError, StoreTrouble
from effectlog.model import RunState
from effectlog.store import commands as c
from effectlog.worker.takeover import forget_owners

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from effectlog.engine.engine import Engine
    from effectlog.engine.runtime import Runtime
    from effectlog.worker.claim_loop import ClaimLoop
    from effectlog.worker.owner import Owner

logger = logging.getLogger("effectlog")

PURGE_BATCH = 500
"""Runs removed in one transaction at most."""
_SMALLEST_BATCH = 20
_BATCH_SECONDS = 0.05
"""Seconds that a batch should take, as a claim may wait for it. Runs with many effects make it smaller."""
_REST = 3
FIRST_LOOK = 1.0
"""Seconds that the first sign of life waits for the first look for work."""
BEAT_INTERVAL = 20.0
"""Seconds between two signs of life at most, however rare heartbeats are."""
SILENT_AFTER = 60.0
"""Seconds without a sign of life after which a worker counts as stopped or blocked; its process may live."""
UPKEEP_INTERVAL = 60.0
"""Seconds between two rounds of clearing away and purging."""
FORGOTTEN_AFTER = 86_400.0
"""Seconds after which a worker is no longer shown that never left, and whose death nothing can prove."""
ENDED = tuple(state for state in RunState if state.ended)


async def purge(
    engine: Engine, older_than: float, states: tuple[RunState, ...] = ENDED
) -> AsyncIterator[int]:
    """Remove runs that ended ``older_than`` seconds ago, each whole; yields how many each batch removed.

    Between two batches others get three times as long for their writes as the batch took: who waits for the
    write lock looks for it now and then, and must not find it taken again and again. It may be stopped or
    killed at any time: the next one goes on where it was.
    """
    limit = PURGE_BATCH
    while True:
        began = time.monotonic()
        (outcome,) = await engine.commit(c.Purge(older_than, states, limit))
        took = time.monotonic() - began
        count = outcome.count if isinstance(outcome, c.Purged) else 0
        yield count
        if count < limit:
            return
        await asyncio.sleep(_REST * took)
        limit = max(_SMALLEST_BATCH, min(PURGE_BATCH, int(limit * _BATCH_SECONDS / took)))


class Upkeep:
    """The side work of one worker, on its loop, until it is stopped."""

    def __init__(
        self,
        runtime: Runtime,
        owner: Owner,
        claim_loop: ClaimLoop,
        *,
        concurrency: int,
        retention: float | None,
    ) -> None:
        self._engine = runtime.engine
        self._owner = owner
        self._claim_loop = claim_loop
        self._concurrency = concurrency
        self._retention = retention
        self._tasks = [
            asyncio.create_task(self._every(min(runtime.heartbeat, BEAT_INTERVAL), self.beat)),
            asyncio.create_task(self._every(min(UPKEEP_INTERVAL, retention or UPKEEP_INTERVAL), self._tidy)),
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def beat(self) -> None:
        """Say that this worker is alive, what it can execute, and when it last looked for work."""
        with contextlib.suppress(TimeoutError):
            # The first beat should not have to say that it never looked, unless it can't.
            # Not ``wait_for``: up to Python 3.11 it swallows a cancellation that comes together with the
            # answer.
            async with asyncio.timeout(FIRST_LOOK):
                await self._claim_loop.looked.wait()
        host, pid = socket.gethostname(), os.getpid()
        looked_at = self._claim_loop.looked_at
        tasks = self._claim_loop.task_names
        beat = c.ReportWorker(
            self._owner.id, self._owner.name, host, pid, self._concurrency, looked_at, tasks
        )
        await self._engine.commit(beat)

    async def _tidy(self) -> None:
        await forget_owners(self._engine, await self._engine.read(self._gone()))
        if self._retention is not None:
            async for _ in purge(self._engine, self._retention):
                pass

    async def _gone(self) -> list[str]:
        """Workers that are gone and own nothing any more; runs on the engine's loop."""
        store = self._engine.store
        owners = await store.owners()
        idle = {row.owner: row for row in await store.workers() if row.owner not in owners}
        dead = await store.liveness.dead(frozenset(idle) - {self._owner.id})
        old = store.clock.wall() - FORGOTTEN_AFTER
        return [owner for owner, row in idle.items() if owner in dead or row.beat_at < old]

    async def _every(self, seconds: float, action: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await action()
            except StoreClosed:
                return
            except EffectLogError as error:
                if isinstance(error, StoreError) and error.reason is StoreTrouble.STORE_GONE:
                    return  # The claim loop reports it.
                logger.warning(
                    "effectlog: upkeep of %s failed and is tried again: %s", self._owner.name, error
                )
            except Exception:
                logger.exception("effectlog: upkeep of %s failed and is tried again", self._owner.name)
            await asyncio.sleep(seconds)
