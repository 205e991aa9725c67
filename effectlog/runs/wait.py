"""Waiting for runs to end or to be held, wherever they are executed."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from typing import TYPE_CHECKING

from effectlog.errors import EffectLogError, StoreError
from effectlog.model import RunState
from effectlog.store.protocol import Confirming

if TYPE_CHECKING:
    from effectlog.engine.engine import Engine
    from effectlog.store.protocol import Store
    from effectlog.store.rows import StoredSummary

_PAUSE = 0.005
"""Seconds between two looks at the store, however often it changes."""
_SHARE = 4
"""Looks take at most one part in this many of the time, however many runs are waited for."""
_LONGEST_PAUSE = 0.5
"""The same, whatever a look took: one that waited for a store that was away has not cost it anything."""
_PAUSE_AFTER_FAILURE = 0.25


class _Reading:
    """One run read with its result, once for all who heard of it at one time.

    On the engine's loop.
    """

    def __init__(self, store: Store, run_id: str) -> None:
        self._store = store
        self._run_id = run_id
        self._task: asyncio.Task[StoredSummary | None] | None = None

    async def run(self) -> StoredSummary | None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._read())
        # Shielded: who waits here and is cancelled must not cancel what the others wait for.
        return await asyncio.shield(self._task)

    async def _read(self) -> StoredSummary | None:
        """Read it, as durable as a write: its caller learns how the run ended, and acts on that."""
        while True:
            try:
                stored = await self._store.summary(self._run_id, result=True)
                if isinstance(self._store, Confirming):
                    await self._store.confirm()
            except StoreError as error:
                if not error.transient:
                    raise
                await asyncio.sleep(_PAUSE_AFTER_FAILURE)
            else:
                return stored


class StateWatch:
    """Wakes waiters when their run has ended or is held. Lives on the engine's loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiters: dict[str, list[concurrent.futures.Future[_Reading]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._changed: asyncio.Event | None = None

    async def settled(self, run_id: str) -> StoredSummary | None:
        """Read the run once it has ended or is held, None if it is not stored; on any loop.

        By then somebody may have set it going again.
        """
        future: concurrent.futures.Future[_Reading] = self._engine.owe(concurrent.futures.Future())
        await self._engine.read(self._add(run_id, future))
        try:
            reading = await asyncio.wrap_future(future)
        finally:
            future.cancel()
        return await self._engine.read(reading.run())

    async def _add(self, run_id: str, future: concurrent.futures.Future[_Reading]) -> None:
        self._waiters.setdefault(run_id, []).append(future)
        if self._changed is None:
            self._changed = asyncio.Event()
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        assert self._changed is not None  # noqa: S101 - set by the first waiter
        self._engine.changes.listen(self._changed.set)
        try:
            while self._waiters:
                await self._changed.wait()
                self._changed.clear()
                await asyncio.sleep(await self._tell_or_fail())
        finally:
            self._engine.changes.unlisten(self._changed.set)
            self._fail(None)

    async def _tell_or_fail(self) -> float:
        """Look once. Returns the seconds until the next look."""
        assert self._changed is not None  # noqa: S101 - set by the first waiter
        began = time.monotonic()
        try:
            await self._tell()
        except EffectLogError as error:
            if not (isinstance(error, StoreError) and error.transient):
                self._fail(error)
            self._changed.set()  # Nothing else may change before the store can be read again.
            return _PAUSE_AFTER_FAILURE
        return min(max(_PAUSE, (time.monotonic() - began) * _SHARE), _LONGEST_PAUSE)

    async def _tell(self) -> None:
        for run_id, waiters in list(self._waiters.items()):
            if all(waiter.cancelled() for waiter in waiters):
                del self._waiters[run_id]
        asked = list(self._waiters)
        states = await self._engine.store.states(asked)
        for run_id in asked:
            state = states.get(run_id)
            if state is None or state.ended or state is RunState.HELD:
                # Begun after the look: what it reads is no older than what was seen.
                reading = _Reading(self._engine.store, run_id)
                for waiter in self._waiters.pop(run_id, []):
                    if waiter.set_running_or_notify_cancel():
                        waiter.set_result(reading)

    def _fail(self, error: EffectLogError | None) -> None:
        for waiters in self._waiters.values():
            for waiter in waiters:
                if not waiter.set_running_or_notify_cancel():
                    continue
                if error is not None:
                    waiter.set_exception(error)
                else:
                    waiter.set_exception(self._engine.closed_error())
        self._waiters.clear()
