"""Somebody else's store, as a worked example: everything in dictionaries, the rules from ``effectlog.store.rules``.

A store of one's own has to do three things: hold a transaction (here a copy that replaces the original),
find the runs that a claim may take, and keep what the rules changed.
"""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from effectlog.clock import SystemClock
from effectlog.errors import StoreError
from effectlog.model import RunState
from effectlog.store import commands as c
from effectlog.store.protocol import Due, RunFilter, WorkerRow
from effectlog.store.rows import RunRow, StoredRun, StoredSummary, UnsettledEffect
from effectlog.store.rules import runs as run_rules
from effectlog.store.rules.execute import execute
from effectlog.store.rules.working_set import KeyRow, WorkingSet
from effectlog.store.sqlite.liveness import NoLiveness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from effectlog.clock import Clock


@dataclass
class Database:
    """What several store objects share."""

    runs: dict[str, StoredRun] = field(default_factory=dict)
    concurrency_keys: dict[str, str | None] = field(default_factory=dict)
    keys: dict[tuple[str, str], KeyRow] = field(default_factory=dict)
    subscriptions: dict[tuple[str, str], c.Subscription] = field(default_factory=dict)
    workers: dict[str, WorkerRow] = field(default_factory=dict)

    def changed(self, commands: Sequence[c.Command], store: DictStore) -> tuple[Database, list[c.Outcome]]:
        after = copy.deepcopy(self)
        return after, [copy.deepcopy(store.perform(after, command)) for command in copy.deepcopy(commands)]


class DictStore:
    name = "dictionaries"

    def __init__(self, shared: list[Database], clock: Clock | None = None) -> None:
        self._shared = shared
        self.clock: Clock = clock or SystemClock()
        self.liveness = NoLiveness()

    async def open(self) -> None:
        self._shared = self._shared or [Database()]

    async def close(self) -> None:
        pass

    async def apply(self, commands: Sequence[c.Command]) -> list[c.Outcome]:
        self._shared[0], outcomes = self._shared[0].changed(commands, self)
        return outcomes

    def perform(self, db: Database, command: c.Command) -> c.Outcome:
        working_set = WorkingSet(self.clock.wall(), self.clock.monotonic(), self.clock.identity, keys=db.keys)
        working_set.runs = {run.row.id: run.row for run in db.runs.values()}
        working_set.effects = {(run.row.id, e.key): e for run in db.runs.values() for e in run.effects}
        outcome = self.decide(db, working_set, command)
        self._keep(db, working_set)
        if isinstance(command, c.Claim):
            return c.Claimed(tuple(db.runs[run_id] for run_id in working_set.changed_runs), working_set.now)
        return outcome

    def decide(self, db: Database, working_set: WorkingSet, command: c.Command) -> c.Outcome:
        match command:
            case c.Claim():
                found = self.candidates(db, working_set.now, command)
                # In the order of the claim, which a set would lose.
                working_set.changed_runs = dict.fromkeys(
                    row.id for row in run_rules.claim(working_set, command, found)
                )  # type: ignore[assignment]
            case c.Purge():
                return c.Purged(
                    len([db.runs.pop(run_id) for run_id in self.purgeable(db, working_set.now, command)])
                )
            case c.Subscribe():
                kept = {key: s for key, s in db.subscriptions.items() if s.task not in command.tasks}
                db.subscriptions = kept | {(s.event, s.task): s for s in command.subscriptions}
            case c.ReportWorker(owner):
                before = db.workers.get(owner)
                claimed_at = command.claimed_at or (before and before.claimed_at)
                db.workers[owner] = WorkerRow(
                    owner,
                    command.worker,
                    command.host,
                    command.pid,
                    command.concurrency,
                    working_set.now,
                    claimed_at,
                    command.tasks,
                )
            case c.RemoveWorker(owner):
                db.workers.pop(owner, None)
            case _:
                return execute(working_set, command)
        return c.Done()

    def _keep(self, db: Database, working_set: WorkingSet) -> None:
        for new in working_set.new_runs:
            if new.id in db.runs:
                raise StoreError(f"a run {new.id} is there already")
            row = RunRow(new.id, new.task, RunState.PENDING, new.due_at or 0.0, waits_since=new.waits_since)
            fields = {
                name: getattr(new, name)
                for name in ("correlation_id", "parent_id", "event", "depth", "trace")
            }
            db.runs[new.id] = StoredRun(
                row, new.args, working_set.now, scope=new.scope, idempotency_key=new.idempotency_key, **fields
            )
            db.concurrency_keys[new.id] = new.concurrency_key
        for begun in working_set.begun:
            db.runs[begun.run_id].attempts.append(begun)
        for run_id, number, trace in working_set.traced:
            db.runs[run_id].attempts[number - 1].trace = trace
        for ended in working_set.ended:
            attempt = db.runs[ended.run_id].attempts[-1]
            attempt.ended_at, attempt.outcome, attempt.error = ended.ended_at, ended.outcome, ended.error
        for run_id, key in working_set.changed_effects:
            effect = working_set.effects[run_id, key]
            if effect not in db.runs[run_id].effects:
                db.runs[run_id].effects.append(effect)
        for run_id in working_set.changed_runs:
            db.runs[run_id].result = working_set.runs[run_id].result or db.runs[run_id].result
            working_set.runs[run_id].result = None
        used = {(run.scope, run.idempotency_key) for run in db.runs.values()}
        for key in [key for key in db.keys if key not in used]:
            del db.keys[key]

    def candidates(self, db: Database, now: float, command: c.Claim) -> list[str]:
        rows = [run.row for run in db.runs.values()]
        pending = [row for row in rows if row.state is RunState.PENDING]
        if command.run_id is not None:
            due = [row for row in pending if row.id == command.run_id]
        else:
            due = [row for row in pending if row.due_in(now) <= 0]
        taken: list[RunRow] = []
        for row in sorted(due, key=lambda row: row.due_at):
            task = next((task for task in command.tasks if row.task in task.names), None)
            if task is None:
                fits = command.run_id is not None
            else:
                fits = len(taken) < command.limit and self.fits(db, task, row, taken, command)
            if fits:
                taken.append(row)
        return [row.id for row in taken]

    def fits(
        self, db: Database, task: c.TaskLimit, row: RunRow, taken: list[RunRow], command: c.Claim
    ) -> bool:
        if row.crashes >= c.SUSPECT_CRASHES:
            others = any(other.crashes >= c.SUSPECT_CRASHES for other in taken)
            if not command.suspects or others:
                return False
        running = [run.row for run in db.runs.values() if run.row.state is RunState.RUNNING]
        busy = [other for other in (*running, *taken) if other.task in task.names]
        if task.concurrency is not None and len(busy) >= task.concurrency:
            return False
        key = db.concurrency_keys[row.id]
        return not (
            task.keyed and key is not None and key in {db.concurrency_keys[other.id] for other in busy}
        )

    def purgeable(self, db: Database, now: float, command: c.Purge) -> list[str]:
        found = [
            run.row.id
            for run in db.runs.values()
            if run.row.finished_at is not None
            and run.row.finished_at <= now - command.older_than
            and run.row.state in command.states
            and (command.run_ids is None or run.row.id in command.run_ids)
            and not self.doubts(run)
        ]
        return found[: command.limit]

    def doubts(self, run: StoredRun) -> bool:
        return any(effect.unsettled for effect in run.effects)

    async def changed(self) -> None:
        await asyncio.sleep(0.01)

    async def get(self, run_id: str) -> StoredRun | None:
        return copy.deepcopy(self._shared[0].runs.get(run_id))

    async def summary(self, run_id: str, *, result: bool = False) -> StoredSummary | None:
        run = await self.get(run_id)
        found = None if run is None else self.summary_of(run)
        if run is not None and found is not None and result:
            found.result = run.result
        return found

    async def find(self, query: RunFilter) -> list[StoredSummary]:
        ids = list(self._shared[0].runs)
        if query.before and query.before not in ids:
            nearest = max((run_id for run_id in ids if run_id < query.before), default=None)
            ids = [] if nearest is None else ids[: ids.index(nearest) + 1]
        older = ids[: ids.index(query.before)] if query.before in ids else ids
        runs = [self._shared[0].runs[run_id] for run_id in reversed(older)]
        wanted = [
            run for run in runs if query.state in (None, run.row.state) and query.task in (None, run.row.task)
        ]
        return copy.deepcopy([self.summary_of(run) for run in wanted[: query.limit]])

    def summary_of(self, run: StoredRun) -> StoredSummary:
        return StoredSummary(
            run.row,
            run.created_at,
            run.idempotency_key,
            run.correlation_id,
            run.parent_id,
            attempts=len(run.attempts),
            requests=sum(effect.requests for effect in run.effects),
            unsettled=[UnsettledEffect(e.run_id, e.key, e.executing) for e in run.effects if e.unsettled],
        )

    async def states(self, run_ids: Sequence[str]) -> dict[str, RunState]:
        return {
            run_id: self._shared[0].runs[run_id].row.state
            for run_id in run_ids
            if run_id in self._shared[0].runs
        }

    async def due(self, tasks: Sequence[str]) -> Due:
        rows = [run.row for run in self._shared[0].runs.values()]
        now = self.clock.wall()
        waits = [r.due_in(now) for r in rows if r.state is RunState.PENDING and r.task in tasks]
        return Due(any(wait <= 0 for wait in waits), min((wait for wait in waits if wait > 0), default=None))

    async def owners(self) -> dict[str, str]:
        rows = [run.row for run in self._shared[0].runs.values()]
        return {row.owner: row.lease_clock for row in rows if row.owner is not None}

    async def lapsed(self, dead_owners: frozenset[str]) -> list[RunRow]:
        working_set = WorkingSet(self.clock.wall(), self.clock.monotonic(), self.clock.identity)
        rows = [run.row for run in self._shared[0].runs.values() if run.row.state is RunState.RUNNING]
        return copy.deepcopy([row for row in rows if working_set.lapsed(row, dead_owners)])

    async def subscriptions(self, event: str) -> list[c.Subscription]:
        return [found for (of, _), found in sorted(self._shared[0].subscriptions.items()) if of == event]

    async def workers(self) -> list[WorkerRow]:
        return list(self._shared[0].workers.values())

    async def health(self) -> dict[str, object]:
        return {"states": Counter(run.row.state.value for run in self._shared[0].runs.values())}
