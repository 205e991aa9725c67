"""The check at open: a store proves on a scratch run that it enforces ownership, or it is refused.

An adapter can store everything and still let two workers execute one run; nobody notices until an
effect has happened twice. The whole list of guarantees is in ``effectlog.testing.conformance``;
this is the part that must never be missing, quick enough to be tried at open.
"""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING

from effectlog.errors import EffectLogError, StoreRefused
from effectlog.model import AttemptOutcome, Policy, RunState
from effectlog.store import commands as c
from effectlog.store.dry_run import SupportsDryRun
from effectlog.store.protocol import RemembersProof
from effectlog.store.rows import NewRun, RequestClock

if TYPE_CHECKING:
    from effectlog.store.dry_run import DryRunTarget
    from effectlog.store.protocol import Store
    from effectlog.store.rows import RunRow

_MARK = "probe 1"
_BUILT_IN = ("effectlog.store.sqlite.store", "effectlog.store.postgres.store")
_LEASE = 60.0

_MEANING = {
    "owner and lease are stored": "nobody could tell that a run is being executed, and by whom",
    "a live lease is respected": "two workers would execute one run at the same time",
    "a stale fence is refused": "a worker that has lost its run could go on sending and overwrite the result",
}


async def prove(store: Store) -> None:
    """Check that an open store enforces ownership; leaves nothing behind.

    A built-in store is checked once for each schema that it has been given, in a transaction that is rolled
    back. Anybody else's is checked at each open, because nothing says that its code is still the one that
    passed, and by a few commits that are cleared away: a process that is killed in between leaves a scratch
    run there.

    Raises StoreRefused, naming the missing guarantee and what it means, or StoreError where the
    store could not be read or written at all.
    """
    marked = store if isinstance(store, RemembersProof) and type(store).__module__ in _BUILT_IN else None
    if marked is not None and await marked.mark() == _MARK:
        return
    if marked is not None and isinstance(store, SupportsDryRun):
        missing = await store.dry_run(lambda stage: _Probe(stage).missing())
    else:
        missing = await _missing_itself(store)
    if missing is not None:
        raise StoreRefused(
            f"{store.name} was refused: it does not guarantee that {missing.guarantee} ({missing}), so "
            f"{_MEANING[missing.guarantee]}; use another store, or check_store=False for an experiment",
            guarantee=missing.guarantee,
        )
    if marked is not None:
        await marked.set_mark(_MARK)


async def _missing_itself(store: Store) -> _MissingError | None:
    probe = _Probe(store)
    try:
        return await probe.missing()
    finally:
        await probe.clean()


class _MissingError(Exception):
    def __init__(self, guarantee: str, did: str) -> None:
        super().__init__(did)
        self.guarantee = guarantee


class _Probe:
    """One scratch run, under a task name that no worker knows, claimed by two owners in turn."""

    def __init__(self, store: DryRunTarget) -> None:
        self._store = store
        name = f"probe-{uuid.uuid4().hex}"
        self._run = NewRun(id=name, task=name, args=b"[]")
        self._owners = (f"{name}-first", f"{name}-second")
        self._first = c.Fence(name, 1)

    async def missing(self) -> _MissingError | None:
        """Try the three guarantees; returns the first one that is missing."""
        try:
            await self.owner_is_stored()
            await self.live_lease_is_respected()
            await self.stale_fence_is_refused()
        except _MissingError as missing:
            return missing
        return None

    async def owner_is_stored(self) -> None:
        guarantee = "owner and lease are stored"
        create = c.CreateRuns((self._run,), self._run.task)
        _, claimed = await self._store.apply([create, self._claim(self._owners[0])])
        _require(self._got_it(claimed), guarantee, "a claim did not get its run")
        row = await self._row(guarantee)
        wanted = (RunState.RUNNING, self._owners[0], 1)
        found = f"a claimed run was read back as {row.state}, owner {row.owner}, attempt {row.attempt}"
        _require((row.state, row.owner, row.attempt) == wanted, guarantee, found)
        _require(row.lease_expires > 0, guarantee, "a claimed run was read back without a lease")

    async def live_lease_is_respected(self) -> None:
        guarantee = "a live lease is respected"
        second = self._owners[1]
        by_task, by_id, ended = await self._store.apply(
            [
                self._claim(second),
                self._claim(second, run_id=self._run.id),
                c.EndAttempt(self._first, AttemptOutcome.EXPIRED, RunState.PENDING, guard=c.Guard.LAPSED),
            ]
        )
        for outcome in (by_task, by_id):
            _require(not self._got_it(outcome), guarantee, "a second claimer got a run that another one has")
        _require(isinstance(ended, c.Refused), guarantee, "somebody else could end a live attempt")

    async def stale_fence_is_refused(self) -> None:
        guarantee = "a stale fence is refused"
        give_back = c.EndAttempt(self._first, AttemptOutcome.RELEASED, RunState.PENDING)
        _, claimed = await self._store.apply([give_back, self._claim(self._owners[1], run_id=self._run.id)])
        _require(self._got_it(claimed), guarantee, "a run that was given back could not be claimed again")
        started, ended, renewed = await self._store.apply(
            [
                self._start(),
                c.EndAttempt(self._first, AttemptOutcome.SUCCEEDED, RunState.SUCCEEDED, result=b"null"),
                c.Renew(self._owners[0], _LEASE, (self._first,)),
            ]
        )
        _require(isinstance(started, c.Refused), guarantee, "a former owner started an effect")
        _require(isinstance(ended, c.Refused), guarantee, "a former owner ended the run")
        lost = renewed.lost if isinstance(renewed, c.Renewed) else ()
        _require(self._run.id in lost, guarantee, "a former owner renewed its lease")
        row = await self._row(guarantee)
        kept = (row.state, row.owner, row.attempt) == (RunState.RUNNING, self._owners[1], 2)
        _require(kept, guarantee, f"after that the run was read back as {row.state}, attempt {row.attempt}")

    async def clean(self) -> None:
        # What was found about the store matters more than a scratch run that it can't remove.
        with contextlib.suppress(EffectLogError):
            purge = c.Purge(0.0, (RunState.SUCCEEDED, RunState.CANCELLED), 1, run_ids=(self._run.id,))
            await self._store.apply([c.CancelRun(self._run.id, force=True), purge])

    async def _row(self, guarantee: str) -> RunRow:
        stored = await self._store.get(self._run.id)
        if stored is None:
            raise _MissingError(guarantee, "a run that was created could not be read back")
        return stored.row

    def _claim(self, owner: str, run_id: str | None = None) -> c.Claim:
        return c.Claim(owner, "probe", _LEASE, (c.TaskLimit((self._run.task,)),), 1, run_id=run_id)

    def _got_it(self, claimed: c.Outcome) -> bool:
        return isinstance(claimed, c.Claimed) and [run.row.id for run in claimed.runs] == [self._run.id]

    def _start(self) -> c.StartEffect:
        clock = self._store.clock
        sent = RequestClock(clock.wall(), clock.boot(), clock.identity)
        return c.StartEffect(self._first, "probe", 0, "probe", str(uuid.uuid4()), 0, {}, Policy.RESEND, sent)


def _require(condition: object, guarantee: str, did: str) -> None:
    if not condition:
        raise _MissingError(guarantee, did)
