"""Which runs a claim takes, which ended runs a purge removes, and reading runs whole.

Claimers pass over rows that others have locked (``SKIP LOCKED``), so they never wait for each other,
except for a task with a concurrency limit: its claimers take turns, each for one transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from effectlog.store import commands as c
from effectlog.store.assemble import claimed_runs, summaries, whole_runs
from effectlog.store.postgres.errors import is_unstorable
from effectlog.store.rules import runs as run_rules

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from effectlog.store.postgres.batch import Batch
    from effectlog.store.rows import StoredRun, StoredSummary


def limited_names(commands: Iterable[c.Command]) -> set[str]:
    """The names of the tasks whose claimers have to take turns."""
    return {
        name
        for command in commands
        if isinstance(command, c.Claim)
        for task in command.tasks
        if task.concurrency is not None or task.keyed
        for name in task.names
    }


async def claim(batch: Batch, command: c.Claim, *, apart: bool) -> c.Outcome:
    """Claim what is due; ``apart`` claims one by one, and fails what can't be claimed."""
    await batch.flush()
    if command.run_id is None:
        found = await _candidates(batch, command)
    else:
        found = [command.run_id] if await _fits(batch, command) else []
    if apart:
        stored = [run for run_id in found for run in await _take_alone(batch, command, run_id)]
    else:
        stored = await _take(batch, command, found)
    return c.Claimed(tuple(stored), batch.working_set.now)


async def _take(batch: Batch, command: c.Claim, found: list[str]) -> list[StoredRun]:
    missing = set(found) - batch.working_set.runs.keys()
    if missing:
        await batch.lock_runs(missing)
    claimed = run_rules.claim(batch.working_set, command, found)
    first = [attempt for attempt in batch.working_set.begun if attempt.number == 1]
    await batch.flush()
    payloads = await _read(batch, "load_payloads", [run.id for run in claimed])
    # Nothing can be recorded of a run before its first attempt.
    again = [run.id for run in claimed if run.attempt > 1]
    history = [await _read(batch, part, again) for part in ("load_attempts", "load_journal")]
    return claimed_runs(claimed, first, payloads, *history)


async def _read(batch: Batch, statement: str, run_ids: list[str]) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await batch.fetch(statement, run_ids)] if run_ids else []


async def _take_alone(batch: Batch, command: c.Claim, run_id: str) -> list[StoredRun]:
    """A row that breaks the database's own rules fails its run, and keeps no other one waiting."""
    await batch.connection.fetch("SAVEPOINT part")
    try:
        return await _take(batch, command, [run_id])
    except Exception as error:
        if not is_unstorable(error):
            raise
        await batch.connection.fetch("ROLLBACK TO SAVEPOINT part")
        batch.working_set.runs.pop(run_id, None)
        batch.working_set.clear_changes()
        reason = f"the row of run {run_id} is damaged in the store: {error}"
        await batch.write("fail_damaged", run_id, reason)
        return []
    finally:
        await batch.connection.fetch("RELEASE SAVEPOINT part")


async def _fits(batch: Batch, command: c.Claim) -> bool:
    """Whether the limits of its task leave room for the run that the claim names."""
    for task in command.tasks:
        names = list(task.names)
        if task.concurrency is not None:
            ((running,),) = await batch.fetch("count_running", names)
            if running >= task.concurrency:
                return False
        if task.keyed and await batch.fetch("busy_key", names, command.run_id):
            return False
    return True


async def _candidates(batch: Batch, command: c.Claim) -> list[str]:
    free = [task for task in command.tasks if task.concurrency is None and not task.keyed]
    found = await _due_of(batch, command, [name for task in free for name in task.names], command.limit)
    for task in command.tasks:
        if task.concurrency is not None or task.keyed:
            found += await _limited(batch, command, task)
    found.sort(key=lambda row: (row[1], row[2]))
    suspects = [row for row in found if row[3] >= c.SUSPECT_CRASHES]
    return [row[0] for row in found if row not in suspects[1:]][: command.limit]


async def _limited(batch: Batch, command: c.Claim, task: c.TaskLimit) -> list[Any]:
    names, limit = list(task.names), command.limit
    if task.concurrency is not None:
        ((running,),) = await batch.fetch("count_running", names)
        limit = min(limit, task.concurrency - running)
    if limit <= 0:
        return []
    if task.keyed:
        return await batch.fetch("claimable_keyed", names, batch.working_set.now, limit, command.suspects)
    return await _due_of(batch, command, names, limit)


async def _due_of(batch: Batch, command: c.Claim, names: Sequence[str], limit: int) -> list[Any]:
    if not names or limit <= 0:
        return []
    rows = await batch.fetch("claimable", names, batch.working_set.now, limit, int(command.suspects))
    rows.sort(key=lambda row: (row[1], row[2]))
    return rows[:limit]


async def purge(batch: Batch, command: c.Purge) -> c.Outcome:
    await batch.flush()
    states = [state.value for state in command.states]
    only = None if command.run_ids is None else list(command.run_ids)
    rows = await batch.fetch(
        "purgeable", batch.working_set.now - command.older_than, states, command.limit, only
    )
    if not rows:
        return c.Purged(0)
    ids = [row[0] for row in rows]
    for statement in ("purge_effects", "purge_attempts", "purge_runs"):
        await batch.write(statement, ids)
    keys = {(row[1], row[2]) for row in rows if row[2] is not None}
    if keys:
        await batch.write("purge_keys", *zip(*sorted(keys), strict=True))
    batch.working_set.forget_runs(set(ids))
    known = keys & batch.working_set.keys.keys()
    for key in known:
        del batch.working_set.keys[key]
    await batch.load_keys(known)
    return c.Purged(len(rows))


async def load_whole(fetch: Callable[..., Awaitable[list[Any]]], run_ids: Sequence[str]) -> list[StoredRun]:
    """Read runs whole, in the order of the ids; unknown ids are left out."""
    if not run_ids:
        return []
    wanted = list(run_ids)
    parts = ("load_runs", "load_payloads", "load_attempts", "load_journal")
    return whole_runs(run_ids, *[map(tuple, await fetch(part, wanted)) for part in parts])


async def load_summaries(
    fetch: Callable[..., Awaitable[list[Any]]], run_ids: Sequence[str]
) -> list[StoredSummary]:
    """Read runs for a list, in the order of the ids; unknown ids are left out."""
    if not run_ids:
        return []
    wanted = list(run_ids)
    rows, unsettled = await fetch("load_summaries", wanted), await fetch("list_unsettled", wanted)
    return summaries(run_ids, map(tuple, rows), map(tuple, unsettled))
