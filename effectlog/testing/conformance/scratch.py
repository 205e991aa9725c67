"""A scratch namespace in a store, and short ways to say what a guarantee does there.

Every run and task made here has a random name, so that no worker of a store in use claims it;
``clean`` removes what was made.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

from effectlog.model import AttemptOutcome, Policy, RunState
from effectlog.store import commands as c
from effectlog.store.rows import NewRun, RequestClock
from effectlog.testing.conformance.expectations import GuaranteeBroken, accepted, equal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from effectlog.store.protocol import Store
    from effectlog.store.rows import EffectRow, RunRow, StoredRun

LEASE = 60.0
"""A lease, in seconds, that does not lapse while a guarantee is tried."""

_ENDED = (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)


class Bench:
    """One guarantee's own corner of a store."""

    def __init__(
        self,
        store: Store,
        open_store: Callable[[], Awaitable[Store]],
        pass_time: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.store = store
        self.pass_time = pass_time
        self.prefix = f"check-{uuid.uuid4().hex[:12]}"
        self._open_store = open_store
        self._others: list[Store] = []
        self._made: list[str] = []

    async def other(self) -> Store:
        """A second store object on the same data, as another process would have."""
        store = await self._open_store()
        self._others.append(store)
        return store

    def name(self, text: str = "task") -> str:
        """A task, scope or owner name of this bench alone."""
        return f"{self.prefix}.{text}"

    def new_run(self, task: str = "task", **fields: Any) -> NewRun:
        run = NewRun(id=f"{self.prefix}-{len(self._made)}", task=self.name(task), args=b"[]", **fields)
        self._made.append(run.id)
        return run

    async def batch(self, *commands: c.Command) -> list[c.Outcome]:
        outcomes = await self.store.apply(commands)
        equal(len(outcomes), len(commands), "the number of outcomes")
        return outcomes

    async def do(self, command: c.Command) -> c.Outcome:
        (outcome,) = await self.batch(command)
        return outcome

    # --- runs ---------------------------------------------------------------------------------

    async def create(self, task: str = "task", **fields: Any) -> str:
        run = self.new_run(task, **fields)
        accepted(await self.do(c.CreateRuns((run,), run.task)), c.Created)
        return run.id

    def claim_of(self, *tasks: str, owner: str = "a", limit: int = 10, **fields: Any) -> c.Claim:
        fields.setdefault("lease", LEASE)
        fields.setdefault("tasks", tuple(c.TaskLimit((self.name(task),)) for task in tasks))
        return c.Claim(owner=self.name(owner), worker=f"worker {owner}", limit=limit, **fields)

    async def claim(self, *tasks: str, **fields: Any) -> list[str]:
        """The ids that a claim got, in its order."""
        claimed = accepted(await self.do(self.claim_of(*(tasks or ("task",)), **fields)), c.Claimed)
        return [stored.row.id for stored in claimed.runs]

    async def take(self, run_id: str, **fields: Any) -> c.Fence:
        """Claim exactly this run."""
        claimed = accepted(await self.do(self.claim_of(run_id=run_id, **fields)), c.Claimed)
        equal([stored.row.id for stored in claimed.runs], [run_id], "what the claim of one run got")
        return c.Fence(run_id, claimed.runs[0].row.attempt)

    async def running(self, *, task: str = "task", **fields: Any) -> c.Fence:
        """A run that is being executed."""
        return await self.take(await self.create(task), **fields)

    async def end(
        self,
        fence: c.Fence,
        state: RunState = RunState.SUCCEEDED,
        outcome: AttemptOutcome | None = None,
        **fields: Any,
    ) -> RunState:
        """End an attempt; the state that its run is in then."""
        return accepted(await self.do(self.end_of(fence, state, outcome, **fields)), c.RunMoved).state

    def end_of(
        self,
        fence: c.Fence,
        state: RunState = RunState.SUCCEEDED,
        outcome: AttemptOutcome | None = None,
        **fields: Any,
    ) -> c.EndAttempt:
        if outcome is None:
            outcome = AttemptOutcome.SUCCEEDED if state is RunState.SUCCEEDED else AttemptOutcome.ERROR
        if state is RunState.SUCCEEDED:
            fields.setdefault("result", b"null")
        return c.EndAttempt(fence, outcome, state, **fields)

    async def release(self, fence: c.Fence) -> None:
        await self.end(fence, RunState.PENDING, AttemptOutcome.RELEASED)

    def expiry_of(self, fence: c.Fence, *, dead: str | None = "a", **fields: Any) -> c.EndAttempt:
        """The command by which another worker ends the attempt of a dead owner."""
        return c.EndAttempt(
            fence,
            AttemptOutcome.EXPIRED,
            fields.pop("state", RunState.PENDING),
            guard=c.Guard.LAPSED,
            dead_owners=frozenset({self.name(dead)} if dead else ()),
            **fields,
        )

    async def crash(self, fence: c.Fence, **fields: Any) -> RunState:
        """The attempt's owner dies and is found dead; the state that its run is in then."""
        return accepted(await self.do(self.expiry_of(fence, **fields)), c.RunMoved).state

    async def find_abandoned(self, fence: c.Fence, owner: str = "b", **fields: Any) -> c.Fence:
        """The owner ``a`` dies, and another one claims the run."""
        await self.crash(fence)
        return await self.take(fence.run_id, owner=owner, **fields)

    async def stored(self, run_id: str) -> StoredRun:
        stored = await self.store.get(run_id)
        if stored is None:
            raise GuaranteeBroken(f"run {run_id} is gone")
        return stored

    async def run(self, run_id: str) -> RunRow:
        return (await self.stored(run_id)).row

    # --- effects ------------------------------------------------------------------------------

    def start_of(self, fence: c.Fence, key: str = "charge", seen: int = 0, **fields: Any) -> c.StartEffect:
        fields.setdefault("policy", Policy.RESEND)
        fields.setdefault("operation_id", str(uuid.uuid5(uuid.NAMESPACE_OID, f"{fence.run_id}/{key}")))
        fields.setdefault("clock", RequestClock(self.store.clock.wall(), 5.0, "boot"))
        fields.setdefault("generation", 0)
        return c.StartEffect(
            fence=fence, key=key, seen=seen, name=f"effect {key}", fingerprints={"n": "1"}, **fields
        )

    async def start(self, fence: c.Fence, key: str = "charge", **fields: Any) -> EffectRow:
        """Start a request, having seen all there is to see."""
        if "seen" not in fields:
            known = [effect for effect in (await self.stored(fence.run_id)).effects if effect.key == key]
            fields["seen"] = known[0].version if known else 0
        return accepted(await self.do(self.start_of(fence, key, **fields)), c.EffectStored).effect

    def finish_of(
        self,
        fence: c.Fence,
        outcome: c.RequestOutcome = c.RequestOutcome.COMPLETED,
        key: str = "charge",
        **fields: Any,
    ) -> c.FinishEffect:
        if outcome is c.RequestOutcome.COMPLETED and "result_error" not in fields:
            fields.setdefault("result", b'"first"')
        return c.FinishEffect(fence, key, outcome, **fields)

    async def finish(
        self,
        fence: c.Fence,
        outcome: c.RequestOutcome = c.RequestOutcome.COMPLETED,
        key: str = "charge",
        **fields: Any,
    ) -> c.EffectStored:
        return accepted(await self.do(self.finish_of(fence, outcome, key, **fields)), c.EffectStored)

    def settle_of(self, run_id: str, key: str = "charge", *, applied: bool, **fields: Any) -> c.SettleEffect:
        if applied:
            fields.setdefault("result", b'"settled"')
        fields.setdefault("by", "ann")
        return c.SettleEffect(run_id, key, applied, **fields)

    async def settle(self, run_id: str, key: str = "charge", *, applied: bool, **fields: Any) -> EffectRow:
        command = self.settle_of(run_id, key, applied=applied, **fields)
        return accepted(await self.do(command), c.EffectStored).effect

    async def effect(self, run_id: str, key: str = "charge") -> EffectRow:
        for effect in (await self.stored(run_id)).effects:
            if effect.key == key:
                return effect
        raise GuaranteeBroken(f"effect {key!r} of run {run_id} is gone")

    # --- the end ------------------------------------------------------------------------------

    async def clean(self) -> None:
        """Remove every run made here, and close the other store objects."""
        for store in self._others:
            await store.close()
        await self.store.apply([c.CancelRun(run_id, force=True) for run_id in self._made])
        for run_id in self._made:
            stored = await self.store.get(run_id)
            doubts = [effect.key for effect in stored.effects if effect.unsettled] if stored else []
            await self.store.apply([self.settle_of(run_id, key, applied=False) for key in doubts])
        await self.store.apply([c.Purge(0.0, _ENDED, len(self._made), run_ids=tuple(self._made))])
