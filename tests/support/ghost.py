"""An owner whose process stands still: it claimed a run and began a request, and speaks again when the test says so.

It is what a paused worker is to everybody else: rows in the store, a lease that lapses, and, where the test
wants it, a liveness lock that is held. Its commands go through the engine as a worker's do.
"""

import time
from typing import Any

from effectlog import EffectLog, Run
from effectlog.decorators.registry import declared_effect
from effectlog.keys import fingerprints, operation_id
from effectlog.store import commands as c
from effectlog.store.rows import RequestClock

GHOST = f"{0x90057:032x}"
"""An owner's name, as effectlog makes them."""


class Ghost:
    """Attempt 1 of one run, after its request began."""

    def __init__(self, log: EffectLog, run: Run[Any], *, owner: str = GHOST, lease: float = 0.05) -> None:
        self.admin = log.administration
        self.run = run
        self.owner = owner
        self.lease = lease
        self.fence = c.Fence(run.id, 1)

    async def begin(
        self, task: str, effect: str, key: str, arguments: dict[str, Any] | None = None
    ) -> "Ghost":
        """Claim and announce the request in one transaction, so that no lease is too short for it."""
        limit = (c.TaskLimit((task,)),)
        claim = c.Claim(self.owner, "paused worker", self.lease, limit, 1, run_id=self.run.id)
        start = self._start(effect, key, arguments or {})
        claimed, started = await self.admin.engine.commit(claim, start)
        assert isinstance(claimed, c.Claimed)
        assert len(claimed.runs) == 1
        assert isinstance(started, c.EffectStored)
        return self

    def _start(self, effect: str, key: str, arguments: dict[str, Any]) -> c.StartEffect:
        spec = declared_effect(effect)
        assert spec is not None
        clock = self.admin.engine.store.clock
        return c.StartEffect(
            self.fence,
            key,
            seen=0,
            name=spec.name,
            operation_id=operation_id(self.run.id, key, 0),
            generation=0,
            fingerprints=fingerprints(arguments, spec.ignore, owner=spec.name),
            policy=spec.policy,
            clock=RequestClock(clock.wall(), clock.boot(), clock.identity),
            destination=spec.destination_json,
        )

    def lapse(self) -> "Ghost":
        """Let its lease run out, so that the next worker takes over at once."""
        time.sleep(2 * self.lease)
        return self

    async def complete(self, key: str, value: Any) -> c.Outcome:
        """It wakes up: its request had been accepted."""
        return await self._finish(key, c.RequestOutcome.COMPLETED, self.admin.codec.encode(value))

    async def fail(self, key: str, outcome: c.RequestOutcome) -> c.Outcome:
        return await self._finish(key, outcome, None)

    async def _finish(self, key: str, outcome: c.RequestOutcome, result: bytes | None) -> c.Outcome:
        (stored,) = await self.admin.engine.commit(c.FinishEffect(self.fence, key, outcome, result=result))
        return stored


async def paused(log: EffectLog, run: Run[Any], *, task: str, effect: str) -> Ghost:
    """Attempt 1 has begun its request and does not answer any more."""
    return (await Ghost(log, run).begin(task, effect, "send")).lapse()
