"""Which runs a claim takes, and which ended runs a purge removes.

Claimers pass over rows that others have locked (``SKIP LOCKED``), so they never wait for each other,
except for a task with a concurrency limit: its claimers take turns, each for one transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from effectlog.store import commands as c
from effectlog.store.assemble import claimed_runs
from effectlog.store.postgres.errors import is_unstorable
from effectlog.store.rules import claims
from effectlog.store.rules import runs as run_rules

if TYPE_CHECKING:
    from effectlog.store.postgres.batch import Batch
    from effectlog.store.rows import StoredRun


async def claim(batch: Batch, command: c.Claim, *, apart: bool) -> c.Outcome:
    """Claim what is due; ``apart`` claims one by one, and fails what can't be claimed."""
    await batch.flush()
    found = await _candidates(batch, command)
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
        reason = claims.give_up_damaged(batch.working_set, run_id, error)
        await batch.write("fail_damaged", run_id, reason)
        return []
    finally:
        await batch.connection.fetch("RELEASE SAVEPOINT part")


async def _candidates(batch: Batch, command: c.Claim) -> list[str]:
    search = claims.candidates(command)
    try:
        question = next(search)
        while True:
            question = search.send(await _answer(batch, question))
    except StopIteration as done:
        found: list[str] = done.value
        return found


async def _answer(batch: Batch, question: claims.Question) -> list[claims.Row]:
    names, now = list(question.names), batch.working_set.now
    match question:
        case claims.CountRunning():
            return await batch.fetch("count_running", names)
        case claims.BusyKey():
            return await batch.fetch("busy_key", names, question.run_id)
        case claims.FindDue():
            return await batch.fetch("claimable", names, now, question.limit, int(question.suspects))
        case claims.FindDueKeyed():
            return await batch.fetch("claimable_keyed", names, now, question.limit, question.suspects)


async def purge(batch: Batch, command: c.Purge) -> c.Outcome:
    await batch.flush()
    states = [state.value for state in command.states]
    only = None if command.run_ids is None else list(command.run_ids)
    rows = await batch.fetch(
        "purgeable", batch.working_set.now - command.older_than, states, command.limit, only
    )
    if not rows:
        return c.Purged(0)
    removed = batch.working_set.purged(map(tuple, rows))
    for statement in ("purge_effects", "purge_attempts", "purge_runs"):
        await batch.write(statement, removed.runs)
    if removed.keys:
        await batch.write("purge_keys", *zip(*sorted(removed.keys), strict=True))
    await batch.load_keys(removed.keys_to_load)
    return c.Purged(len(removed.runs))
