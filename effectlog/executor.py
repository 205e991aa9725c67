"""Turns claimed runs into executing attempts of one owner; shared by workers and ``log.run``."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from effectlog import commands as c
from effectlog.attempt import Attempt, Ending
from effectlog.execution import Execution
from effectlog.lease import Owner, trusted_until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from effectlog.codec import Codec
    from effectlog.engine import Engine
    from effectlog.rows import StoredRun
    from effectlog.spec import TaskSpec

STOP_GRACE = 1.0
"""Seconds that interrupted code gets to stop before it is left behind."""


class Executor:
    """The attempts that one owner is executing on the calling loop."""

    def __init__(self, engine: Engine, codec: Codec, *, owner: Owner, max_value_bytes: int) -> None:
        self.owner = owner
        self._engine = engine
        self._codec = codec
        self._max_value_bytes = max_value_bytes
        self._executions: dict[asyncio.Task[c.Outcome | None], Execution] = {}

    def __len__(self) -> int:
        return len(self._executions)

    @property
    def attempts(self) -> list[Attempt]:
        """What is being executed now."""
        return [execution.attempt for execution in self._executions.values()]

    def start(self, run: StoredRun, task: TaskSpec, sent: float) -> asyncio.Task[c.Outcome | None]:
        """Begin to execute a run that was claimed at ``sent`` (monotonic)."""
        attempt = Attempt(
            run,
            task,
            owner=self.owner.id,
            worker=self.owner.name,
            engine=self._engine,
            codec=self._codec,
            max_value_bytes=self._max_value_bytes,
            lease=self.owner.lease,
            lease_until=trusted_until(sent, self.owner.lease),
        )
        execution = Execution(attempt)
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
        """Give everything back. False if code is left behind that would not stop.

        What has stopped can be claimed by others at once; what has not, when this process is gone or
        its lease has ended.
        """
        for attempt in self.attempts:
            attempt.end(Ending.RELEASED)
        if await self.wait(STOP_GRACE):
            return True
        marks = [c.MarkReleasing(attempt.fence) for attempt in self.attempts]
        if marks:
            await self._engine.commit(*marks)
        for running in list(self._executions):
            running.cancel()
        return False


def claim_command(owner: Owner, tasks: Mapping[str, TaskSpec], limit: int, *, suspects: bool) -> c.Claim:
    """Ask for runs of these tasks (by every stored name)."""
    return c.Claim(owner.id, owner.name, owner.lease, task_limits(tasks), limit, suspects)


def task_limits(tasks: Mapping[str, TaskSpec]) -> tuple[c.TaskLimit, ...]:
    """The tasks as a claim names them, each once."""
    specs = {spec.name: spec for spec in tasks.values()}
    return tuple(
        c.TaskLimit(spec.names, spec.concurrency, spec.concurrency_key is not None) for spec in specs.values()
    )
