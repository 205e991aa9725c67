"""One worker: executes runs until it is drained or released. ``claim_loop`` does the claiming.

The invariant: when it has left, whatever of it still runs is marked as its own, and nobody else gets it
before this process is gone or the lease has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import uuid
from typing import TYPE_CHECKING, Any

from effectlog.errors import ConfigurationError, EffectLogError
from effectlog.store import commands as c
from effectlog.validation import wait_limit
from effectlog.worker.claim_loop import ClaimLoop
from effectlog.worker.loop_watch import LoopWatch
from effectlog.worker.maintenance import Upkeep
from effectlog.worker.owner import Owner
from effectlog.worker.running import RunningAttempts
from effectlog.worker.signals import Signals

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from types import TracebackType

    from effectlog.clock import Duration
    from effectlog.decorators.spec import TaskSpec
    from effectlog.engine.runtime import Runtime

logger = logging.getLogger("effectlog")


class Worker:
    """Executes runs until it is drained. Made by ``EffectLog.worker``."""

    def __init__(
        self,
        runtime: Runtime,
        tasks: Callable[[], Mapping[str, TaskSpec]],
        *,
        concurrency: int,
        name: str | None,
        retention: float | None,
        prepare: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self.name = name or f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:6]}"
        self._runtime = runtime
        self._engine = runtime.engine
        self._tasks = tasks
        self._concurrency = concurrency
        self._retention = retention
        self._prepare = prepare
        self._owner = Owner(runtime, self.name)
        self._executor = RunningAttempts(runtime, self._owner)
        self._blocked = LoopWatch(runtime, self._executor)
        self._claim_loop: ClaimLoop | None = None
        self._upkeep: Upkeep | None = None
        self._left: asyncio.Future[bool] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = os.getpid()

    @property
    def inherited(self) -> bool:
        """Whether this is a forked child's copy: what it would wait for goes on in its parent alone."""
        return os.getpid() != self._pid

    # --- life ----------------------------------------------------------------------------------

    async def __aenter__(self) -> Worker:
        """Begin to claim. Raises StoreClosed if the log is not open, ConfigurationError for a second time."""
        if self._claim_loop is not None:
            raise ConfigurationError(f"worker {self.name} was used before; ask log.worker(...) for a new one")
        self._check_process()
        await self._prepare()
        await self._owner.start()
        self._loop = asyncio.get_running_loop()
        self._blocked.start(self._loop)
        self._claim_loop = ClaimLoop(
            self._runtime, self._executor, self._tasks, concurrency=self._concurrency
        )
        self._upkeep = Upkeep(
            self._runtime,
            self._owner,
            self._claim_loop,
            concurrency=self._concurrency,
            retention=self._retention,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drain; on an exception release instead. A forked child leaves without either."""
        if self._loop is None or self.inherited:
            return  # Its log was closed under it, or the worker is its parent's.
        if kind is None:
            await self.drain()
        else:
            await self.release()

    async def drain(self, timeout: Duration | None = None) -> bool:
        """Claim nothing more and wait for what is being executed; after ``timeout`` seconds release the rest.

        True if everything was finished. A cancellation of the caller releases as well. Raises
        ConfigurationError in a forked child.
        """
        limit = wait_limit(timeout, "drain(timeout")
        self._check_process()
        if self._claim_loop is not None:
            await self._claim_loop.stop()
        try:
            finished = await self._executor.wait(limit)
        except asyncio.CancelledError:
            await self.release()
            raise
        if not finished:
            await self.release()
        elif self._left is None:
            await self._leave()
        return finished

    async def release(self) -> bool:
        """Release everything; no attempt is used up. False if code is left behind that would not stop.

        What is left behind stays this worker's until the process is gone or its lease has ended. Raises
        ConfigurationError in a forked child.
        """
        self._check_process()
        if self._left is None:
            self._left = asyncio.ensure_future(self._release())
        return await asyncio.shield(self._left)

    async def abandon(self) -> None:
        """Release from whatever loop, where the worker has not left yet: its log is closed under it."""
        loop = self._loop
        if loop is None or self.inherited:
            return  # It has left, or is the parent's.
        if loop is asyncio.get_running_loop():
            await self.release()
        elif loop.is_running():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.release(), loop))

    async def _release(self) -> bool:
        if self._claim_loop is not None:
            await self._claim_loop.stop()
        stopped = await self._executor.release()
        await self._leave()
        return stopped

    async def _leave(self) -> None:
        self._blocked.stop()
        if self._upkeep is not None:
            await self._upkeep.stop()
        with contextlib.suppress(EffectLogError):
            await self._engine.commit(c.RemoveWorker(self._owner.id))
        await self._owner.stop()
        self._loop = None

    def _check_process(self) -> None:
        if self.inherited:
            raise ConfigurationError(
                f"worker {self.name} belongs to process {self._pid}, and its forked child {os.getpid()} has "
                "only a copy; open a log and a worker of its own there"
            )

    # --- as the process's main business --------------------------------------------------------

    async def serve(self, *, ready: Callable[[], object] | None = None) -> None:
        """Work until SIGTERM or SIGINT, then drain; a second signal releases.

        ``ready`` is called once, when others can see the worker and it claims. After the second signal the
        process ends within 2 seconds, even where code would not stop. A further SIGTERM while the log closes
        does not end the process by the signal, unless closing takes longer than that.

        Raises StoreError, and releases everything, once the store is not the one that was opened: its file
        was deleted, moved or replaced.
        """
        with Signals(self._executor.mark_left, self._engine) as signals:
            try:
                await self.__aenter__()
                if ready is not None:
                    ready()
                number = await self._until_told(signals)
            except BaseException:
                if await self.release():
                    signals.left()
                raise
            logger.info("effectlog: %s: signal %s, draining; once more releases", self.name, number)
            await self._drain_or_release(signals)

    async def _until_told(self, signals: Signals) -> int:
        """The first signal.

        Raises StoreError where the store is not the one that was opened: no signal is needed then.
        """
        assert self._claim_loop is not None  # noqa: S101 - it was just entered
        signal, gone = asyncio.ensure_future(signals.next()), self._claim_loop.store_gone
        either: tuple[asyncio.Future[Any], ...] = (signal, gone)
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                raise gone.result()
            return signal.result()
        finally:
            signal.cancel()

    async def _drain_or_release(self, signals: Signals) -> None:
        draining = asyncio.ensure_future(self.drain())
        again = asyncio.ensure_future(signals.next())
        try:
            await asyncio.wait({draining, again}, return_when=asyncio.FIRST_COMPLETED)
            if draining.done() or await self.release():
                signals.left()
        finally:
            again.cancel()
            draining.cancel()
            await asyncio.wait({draining})
        if not draining.cancelled():
            draining.result()
