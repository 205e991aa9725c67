"""One batch of commands as one SQLite transaction: load what the ledger needs, decide, write back.

Runs on the writer connection's own thread, from ``BEGIN IMMEDIATE`` to ``COMMIT`` without a gap, so no
cancelled caller can leave a transaction open.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

from effectlog.store import columns
from effectlog.store import commands as c
from effectlog.store.assemble import claimed_runs, summaries, whole_runs
from effectlog.store.rules import runs as run_rules
from effectlog.store.rules.execute import execute
from effectlog.store.rules.working_set import RowsNeeded, WorkingSet, needs
from effectlog.store.sqlite.bulk_write import write_rows
from effectlog.store.sqlite.errors import UNSTORABLE
from effectlog.store.statements import statements

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

    from effectlog.clock import Clock
    from effectlog.store.rows import NewRun, RunRow, StoredRun, StoredSummary
    from effectlog.store.sqlite.running_runs import RunningRuns

SQL = statements("sqlite")


def apply_batch(
    connection: sqlite3.Connection, clock: Clock, live: RunningRuns, commands: Sequence[c.Command]
) -> list[c.Outcome]:
    """Apply the commands in one durable transaction, or none of them."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        outcomes = perform(connection, clock, live, commands)
        connection.execute("COMMIT")
    except BaseException:
        live.forget()
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return outcomes


def perform(
    connection: sqlite3.Connection, clock: Clock, live: RunningRuns, commands: Sequence[c.Command]
) -> list[c.Outcome]:
    """Perform the commands in the connection's open transaction."""
    live.check(connection)
    wanted = needs(commands)
    # The clocks are read under the write lock: a wait for it must not lengthen anybody's lease.
    working_set = WorkingSet(now=clock.wall(), lease_now=clock.monotonic(), lease_clock=clock.identity)
    live.fill(working_set, wanted)
    _load(connection, working_set, wanted)
    outcomes = [_perform(connection, working_set, live, command) for command in commands]
    _flush(connection, working_set, live)
    return outcomes


def _perform(
    connection: sqlite3.Connection, working_set: WorkingSet, live: RunningRuns, command: c.Command
) -> c.Outcome:
    match command:
        case c.Claim():
            return _claim(connection, working_set, live, command)
        case c.Purge():
            return _purge(connection, working_set, live, command)
        case c.Subscribe():
            rows = [columns.subscription_insert(subscription) for subscription in command.subscriptions]
            connection.execute(SQL["remove_subscriptions"], (as_json(command.tasks),))
            _write(connection, "save_subscription", rows)
        case c.ReportWorker():
            row = (command.owner, command.worker, command.host, command.pid, command.concurrency)
            connection.execute(
                SQL["save_worker"], (*row, working_set.now, command.claimed_at, as_json(command.tasks))
            )
        case c.RemoveWorker():
            connection.execute(SQL["remove_worker"], (command.owner,))
        case _:
            return execute(working_set, command)
    return c.Done()


def _load(connection: sqlite3.Connection, working_set: WorkingSet, wanted: RowsNeeded) -> None:
    if wanted.runs:
        for run in columns.readable(columns.run_from, _rows(connection, "load_runs", wanted.runs)):
            working_set.runs[run.id] = run
    if wanted.effects:
        for row in _rows(connection, "load_effects", wanted.effects):
            working_set.effects[row[0], row[1]] = columns.effect_from(row)
    unsettled_of = working_set.need_unsettled(wanted)
    if unsettled_of:
        rows = _rows(connection, "load_unsettled", unsettled_of)
        for effect in columns.readable(columns.effect_from, rows):
            working_set.effects.setdefault((effect.run_id, effect.key), effect)
    if wanted.keys:
        for row in _rows(connection, "load_keys", wanted.keys):
            working_set.keys[row[0], row[1]] = columns.key_from(row)


def _rows(connection: sqlite3.Connection, statement: str, wanted: Iterable[Any]) -> list[Any]:
    # Fetched to the end: a statement that is left halfway, by a row that can't be read, would keep its moment open.
    return connection.execute(SQL[statement], (as_json(wanted),)).fetchall()


def _flush(connection: sqlite3.Connection, working_set: WorkingSet, live: RunningRuns) -> None:
    if working_set.new_runs:
        _write(connection, "insert_run", [_new_run(run, working_set.now) for run in working_set.new_runs])
    if working_set.new_keys:
        keys = [
            (scope, key, json.dumps(row.run_ids), row.fingerprints)
            for (scope, key), row in working_set.new_keys
        ]
        _write(connection, "insert_key", keys)
    if working_set.begun:
        _write(
            connection, "insert_attempt", [columns.attempt_insert(attempt) for attempt in working_set.begun]
        )
    if working_set.traced:
        _write(connection, "note_trace", working_set.traced)
    if working_set.ended:
        _write(connection, "end_attempt", [columns.attempt_end(attempt) for attempt in working_set.ended])
    if working_set.changed_effects:
        _flush_effects(connection, working_set)
    if working_set.changed_runs:
        updates = [_changed_run(working_set.runs[run_id]) for run_id in working_set.changed_runs]
        _write(connection, "update_run", updates)
    live.written(working_set)
    working_set.clear_changes()


def _new_run(run: NewRun, now: float) -> columns.Columns:
    return (*columns.run_insert(run, now), run.waits_since)


def _changed_run(run: RunRow) -> columns.Columns:
    return (*columns.run_update(run), run.waits_since)


def _flush_effects(connection: sqlite3.Connection, working_set: WorkingSet) -> None:
    """Most effects are begun or completed, and of those only the columns that can have changed are written."""
    begun, completed, other = [], [], []
    for identity, only_completed in working_set.changed_effects.items():
        effect = working_set.effects[identity]
        if effect.version == 1:
            begun.append(columns.effect_insert(effect))
        elif only_completed:
            completed.append(columns.effect_completion(effect))
        else:
            other.append(columns.effect_columns(effect))
    _write(connection, "insert_effect", begun)
    _write(connection, "complete_effect", completed)
    _write(connection, "save_effect", other)


def _write(connection: sqlite3.Connection, name: str, rows: Sequence[columns.Columns]) -> None:
    write_rows(connection, SQL[name], rows)


def _claim(
    connection: sqlite3.Connection, working_set: WorkingSet, live: RunningRuns, command: c.Claim
) -> c.Outcome:
    # What earlier commands of the batch changed must be seen by the queries below.
    _flush(connection, working_set, live)
    if command.run_id is None:
        found = _candidates(connection, working_set, command)
    else:
        found = [command.run_id] if _fits(connection, command) else []
    try:
        with _savepoint(connection):
            stored = _take(connection, working_set, live, command, found)
    except UNSTORABLE:
        stored = _take_apart(connection, working_set, live, command, found)
    live.claimed(stored)
    return c.Claimed(tuple(stored), working_set.now)


def _take(
    connection: sqlite3.Connection,
    working_set: WorkingSet,
    live: RunningRuns,
    command: c.Claim,
    found: list[str],
) -> list[StoredRun]:
    _load(connection, working_set, RowsNeeded(runs=set(found) - set(working_set.runs)))
    claimed = run_rules.claim(working_set, command, found)
    first = [attempt for attempt in working_set.begun if attempt.number == 1]
    _flush(connection, working_set, live)
    payloads = _rows(connection, "load_payloads", [run.id for run in claimed]) if claimed else []
    # Nothing can be recorded of a run before its first attempt.
    again = [run.id for run in claimed if run.attempt > 1]
    history = [_rows(connection, part, again) if again else [] for part in ("load_attempts", "load_journal")]
    return claimed_runs(claimed, first, payloads, *history)


def _take_apart(
    connection: sqlite3.Connection,
    working_set: WorkingSet,
    live: RunningRuns,
    command: c.Claim,
    found: list[str],
) -> list[StoredRun]:
    """Claim one by one: a row that breaks the database's own rules fails its run, and keeps no other one waiting."""
    for run_id in found:
        working_set.runs.pop(run_id, None)
    working_set.clear_changes()
    live.forget()
    stored: list[StoredRun] = []
    for run_id in found:
        try:
            with _savepoint(connection):
                stored += _take(connection, working_set, live, command, [run_id])
        except UNSTORABLE as error:
            working_set.runs.pop(run_id, None)
            working_set.clear_changes()
            reason = f"the row of run {run_id} is damaged in the store: {error}"
            connection.execute(SQL["fail_damaged"], (working_set.now, reason, run_id))
    return stored


@contextlib.contextmanager
def _savepoint(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("SAVEPOINT part")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK TO part")
        raise
    finally:
        connection.execute("RELEASE part")


def _fits(connection: sqlite3.Connection, command: c.Claim) -> bool:
    """Whether the limits of its task leave room for the run that the claim names."""
    for task in command.tasks:
        names = as_json(task.names)
        if task.concurrency is not None:
            (running,) = connection.execute(SQL["count_running"], (names,)).fetchone()
            if running >= task.concurrency:
                return False
        if (
            task.keyed
            and connection.execute(SQL["busy_key"], {"tasks": names, "run_id": command.run_id}).fetchone()
        ):
            return False
    return True


def _candidates(connection: sqlite3.Connection, working_set: WorkingSet, command: c.Claim) -> list[str]:
    free = [task for task in command.tasks if task.concurrency is None and not task.keyed]
    found = _due_of(
        connection, working_set, command, [name for task in free for name in task.names], command.limit
    )
    for task in command.tasks:
        if task.concurrency is None and not task.keyed:
            continue
        names = as_json(task.names)
        limit = command.limit
        if task.concurrency is not None:
            (running,) = connection.execute(SQL["count_running"], (names,)).fetchone()
            limit = min(limit, task.concurrency - running)
        if limit <= 0:
            continue
        if task.keyed:
            wanted = {"tasks": names, "now": working_set.now, "limit": limit, "suspects": command.suspects}
            found += connection.execute(SQL["claimable_keyed"], wanted).fetchall()
        else:
            found += _due_of(connection, working_set, command, task.names, limit)
    found.sort(key=lambda row: (row[1], row[2]))
    suspects = [row for row in found if row[3] >= c.SUSPECT_CRASHES]
    return [row[0] for row in found if row not in suspects[1:]][: command.limit]


def _due_of(
    connection: sqlite3.Connection,
    working_set: WorkingSet,
    command: c.Claim,
    names: Iterable[str],
    limit: int,
) -> list[Any]:
    wanted = {"tasks": as_json(names), "now": working_set.now, "limit": limit}
    rows = connection.execute(SQL["claimable"], wanted).fetchall()
    if command.suspects:
        rows += connection.execute(SQL["claimable_suspect"], wanted | {"limit": 1}).fetchall()
    rows.sort(key=lambda row: (row[1], row[2]))
    return rows[:limit]


def _purge(
    connection: sqlite3.Connection, working_set: WorkingSet, live: RunningRuns, command: c.Purge
) -> c.Outcome:
    _flush(connection, working_set, live)
    wanted = {
        "ended_by": working_set.now - command.older_than,
        "states": as_json(state.value for state in command.states),
        "limit": command.limit,
        "only": None if command.run_ids is None else as_json(command.run_ids),
    }
    rows = connection.execute(SQL["purgeable"], wanted).fetchall()
    ids = as_json(row[0] for row in rows)
    for statement in ("purge_effects", "purge_attempts", "purge_runs"):
        connection.execute(SQL[statement], (ids,))
    keys = {(scope, key) for _, scope, key in rows if key is not None}
    connection.execute(SQL["purge_keys"], (as_json(keys),))
    removed = {row[0] for row in rows}
    working_set.forget_runs(removed)
    live.removed(removed)
    known = keys & working_set.keys.keys()
    for key in known:
        del working_set.keys[key]
    _load(connection, working_set, RowsNeeded(keys=known))
    return c.Purged(len(rows))


def load_runs(connection: sqlite3.Connection, run_ids: Sequence[str]) -> list[StoredRun]:
    """Read runs whole, in the order of the ids; unknown ids are left out."""
    if not run_ids:
        return []
    parts = ("load_runs", "load_payloads", "load_attempts", "load_journal")
    return whole_runs(run_ids, *(_rows(connection, part, run_ids) for part in parts))


def load_summaries(connection: sqlite3.Connection, run_ids: Sequence[str]) -> list[StoredSummary]:
    """Read runs for a list, in the order of the ids; unknown ids are left out."""
    if not run_ids:
        return []
    return summaries(
        run_ids, _rows(connection, "load_summaries", run_ids), _rows(connection, "list_unsettled", run_ids)
    )


def as_json(values: Iterable[Any]) -> str:
    """A list for ``json_each``: one parameter, whatever its length."""
    return json.dumps(list(values))
