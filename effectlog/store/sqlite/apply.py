"""One batch of commands as one SQLite transaction: load what the rules need, decide, write back.

Runs on the writer connection's own thread, from ``BEGIN IMMEDIATE`` to ``COMMIT`` without a gap, so no
cancelled caller can leave a transaction open.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from effectlog.store import columns
from effectlog.store import commands as c
from effectlog.store.assemble import claimed_runs, summaries, whole_runs
from effectlog.store.rules import claims
from effectlog.store.rules import runs as run_rules
from effectlog.store.rules.execute import execute
from effectlog.store.rules.working_set import RowsNeeded, WorkingSet, needs
from effectlog.store.sqlite.bulk_write import write_rows
from effectlog.store.sqlite.errors import UNSTORABLE
from effectlog.store.sqlite.savepoint import savepoint
from effectlog.store.statements import statements

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from effectlog.clock import Clock
    from effectlog.store.rows import EffectRow, NewRun, RunRow, StoredRun, StoredSummary
    from effectlog.store.rules.working_set import EffectId
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
    # Fetched to the end: a statement that is left halfway, by a row that can't be read, would keep its moment
    # open.
    return connection.execute(SQL[statement], (as_json(wanted),)).fetchall()


def _flush(connection: sqlite3.Connection, working_set: WorkingSet, live: RunningRuns) -> None:
    for statement, rows in working_set.pending():
        if statement == "save_effect":
            _write_effects(connection, working_set.changed_effects, rows)
        else:
            _write(connection, statement, list(map(_COLUMNS[statement], rows)))
    live.written(working_set)
    working_set.clear_changes()


def _new_run(run: NewRun) -> columns.Columns:
    return (*columns.run_insert(run), run.waits_since)


def _changed_run(run: RunRow) -> columns.Columns:
    return (*columns.run_update(run), run.waits_since)


_COLUMNS: Mapping[str, Callable[[Any], columns.Columns]] = {
    "insert_key": columns.key_insert,
    "insert_run": _new_run,
    "insert_attempt": columns.attempt_insert,
    "note_trace": columns.trace_update,
    "end_attempt": columns.attempt_end,
    "update_run": _changed_run,
}


def _write_effects(
    connection: sqlite3.Connection, only_completed: Mapping[EffectId, bool], effects: Iterable[EffectRow]
) -> None:
    """Most effects are begun or completed: only columns that can have changed are written then."""
    begun, completed, other = [], [], []
    for effect in effects:
        if effect.version == 1:
            begun.append(columns.effect_insert(effect))
        elif only_completed[effect.run_id, effect.key]:
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
    found = _candidates(connection, working_set, command)
    try:
        with savepoint(connection):
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
    """Claim one by one: a row that breaks the database's rules fails its own run alone."""
    claims.forget_claim(working_set, found)
    live.forget()
    stored: list[StoredRun] = []
    for run_id in found:
        try:
            with savepoint(connection):
                stored += _take(connection, working_set, live, command, [run_id])
        except UNSTORABLE as error:
            reason = claims.give_up_damaged(working_set, run_id, error)
            connection.execute(SQL["fail_damaged"], (working_set.now, reason, run_id))
    return stored


def _candidates(connection: sqlite3.Connection, working_set: WorkingSet, command: c.Claim) -> list[str]:
    search = claims.candidates(command)
    try:
        question = next(search)
        while True:
            question = search.send(_answer(connection, working_set.now, question))
    except StopIteration as done:
        found: list[str] = done.value
        return found


def _answer(connection: sqlite3.Connection, now: float, question: claims.Question) -> list[claims.Row]:
    names = as_json(question.names)
    match question:
        case claims.CountRunning():
            rows = connection.execute(SQL["count_running"], (names,))
        case claims.BusyKey():
            rows = connection.execute(SQL["busy_key"], {"tasks": names, "run_id": question.run_id})
        case claims.FindDue():
            wanted = {"tasks": names, "now": now, "limit": question.limit}
            found = connection.execute(SQL["claimable"], wanted).fetchall()
            if question.suspects:
                found += connection.execute(SQL["claimable_suspect"], wanted | {"limit": 1}).fetchall()
            return found
        case claims.FindDueKeyed():
            keyed = {"tasks": names, "now": now, "limit": question.limit, "suspects": question.suspects}
            rows = connection.execute(SQL["claimable_keyed"], keyed)
    return rows.fetchall()


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
    removed = working_set.purged(connection.execute(SQL["purgeable"], wanted).fetchall())
    ids = as_json(removed.runs)
    for statement in ("purge_effects", "purge_attempts", "purge_runs"):
        connection.execute(SQL[statement], (ids,))
    connection.execute(SQL["purge_keys"], (as_json(removed.keys),))
    live.removed(removed.runs)
    _load(connection, working_set, RowsNeeded(keys=removed.keys_to_load))
    return c.Purged(len(removed.runs))


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
