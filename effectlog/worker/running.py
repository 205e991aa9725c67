"""Turns claimed runs into executing attempts of one owner; shared by workers and ``log.run``."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from effectlog.attempt.attempt import Attempt, trusted_until
from effectlog.attempt.stop_reason import StopReason
from effectlog.effects import call
from effectlog.errors import EffectLogError
from effectlog.store import commands as c
from effectlog.worker.executor import AttemptExecutor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from effectlog.decorators.spec import TaskSpec
    from effectlog.engine.runtime import Runtime
    from effectlog.store.rows import StoredRun
    from effectlog.worker.owner import Owner

logger = logging.getLogger("effectlog")

STOP_GRACE = 0.7
"""Seconds that interrupted code gets to stop before it is left behind."""
_NAMED = 5


class RunningAttempts:
    """The attempts that one owner is executing on the calling loop."""

    def __init__(self, runtime: Runtime, owner: Owner) -> None:
        self.owner = owner
        self._runtime = runtime
        self._engine = runtime.engine
        self._executions: dict[asyncio.Task[c.Outcome | None], AttemptExecutor] = {}

    def __len__(self) -> int:
        return len(self._executions)

    @property
    def attempts(self) -> list[Attempt]:
        """What is being executed now."""
        return [execution.attempt for execution in self._executions.values()]

    @property
    def has_suspect(self) -> bool:
        """Whether a run that has crashed before, and may take the process along, is being executed."""
        return any(attempt.run.row.crashes >= c.SUSPECT_CRASHES for attempt in self.attempts)

    def doing(self, loop: asyncio.AbstractEventLoop) -> str:
        """Describe the code at work on the loop; callable from any thread."""
        current = asyncio.current_task(loop)
        executions = list(self._executions.values())
        attempts = [e.attempt for e in executions if e.body is current] or [e.attempt for e in executions]
        names = "; ".join(attempt.doing() for attempt in attempts[:_NAMED])
        more = f" and {len(attempts) - _NAMED} more" if len(attempts) > _NAMED else ""
        return f"{names}{more}" or "code outside attempts"

    def start(self, run: StoredRun, task: TaskSpec, sent: float) -> asyncio.Task[c.Outcome | None]:
        """Begin to execute a run that was claimed at ``sent`` (monotonic)."""
        attempt = Attempt(
            self._runtime,
            run,
            task,
            owner=self.owner.id,
            worker=self.owner.name,
            lease_until=trusted_until(sent, self._runtime.lease),
            call_effect=call.make,
        )
        execution = AttemptExecutor(attempt)
        self.owner.add(attempt)
        running = asyncio.get_running_loop().create_task(execution.run())
        self._executions[running] = execution
        running.add_done_callback(self._ended)
        return running

    def _ended(self, running: asyncio.Task[c.Outcome | None]) -> None:
        execution = self._executions.pop(running)
        self.owner.remove(execution.attempt)
        if not running.cancelled():
            running.exception()  # Retrieved here; it was logged where it could be answered.

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is being executed; False after ``timeout`` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._executions:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            await asyncio.wait(self._executions, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        return True

    async def release(self) -> bool:
        """Release everything. False if code is left behind that would not stop.

        What has stopped can be claimed by others at once; what has not, when this process is gone or
        its lease has ended.
        """
        for attempt in self.attempts:
            attempt.end(StopReason.RELEASED)
        if await self.wait(STOP_GRACE):
            return True
        self.owner.leaves_code_behind = True
        try:
            await self._engine.commit(*self._marks())
        except EffectLogError as error:
            logger.warning("effectlog: what %s leaves behind could not be marked: %s", self.owner.name, error)
        for running in list(self._executions):
            running.cancel()
        return False

    def mark_left(self) -> None:
        """Mark what is being executed as released; blocks. For a process that is about to end."""
        if marks := self._marks():
            with contextlib.suppress(EffectLogError):
                self._engine.commit_sync(*marks)

    def _marks(self) -> list[c.MarkReleasing]:
        return [c.MarkReleasing(attempt.fence) for attempt in self.attempts]


def task_limits(tasks: Mapping[str, TaskSpec]) -> tuple[c.TaskLimit, ...]:
    """The tasks as a claim names them, each once."""
    specs = {spec.name: spec for spec in tasks.values()}
    return tuple(
        c.TaskLimit(spec.names, spec.concurrency, spec.concurrency_key is not None) for spec in specs.values()
    )
