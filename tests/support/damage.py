"""A store with one damaged row for each column and kind of damage, each in a run of its own."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from effectlog import EffectLog, Retry, StoreError, durable_task, effect
from effectlog.codec import JsonCodec
from effectlog.keys import operation_id
from effectlog.model import AttemptOutcome, Policy, RunState
from effectlog.store import commands as c
from effectlog.store.rows import NewRun, RequestClock
from effectlog.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

FAR = 4000
"""A year; what is due then is as good as never due, and its record says so."""
requested: list[tuple[str, str]] = []


@effect(key="done", name="fuzz.done", ignore=("run",))
def done(run: str) -> str:
    requested.append((run, "done"))
    return "new"


@effect(key="doubt", name="fuzz.doubt", ignore=("run",))
def doubt(run: str) -> str:
    requested.append((run, "doubt"))
    return "sent"


@durable_task(name="fuzz.damaged", retry=Retry(max_attempts=2, delay=0.0))
def body(run: str) -> list[str]:
    return [done(run), doubt(run)]


@dataclass(frozen=True)
class Damage:
    """One value in one column of one run's rows."""

    table: str
    column: str
    value: Any

    @property
    def run_id(self) -> str:
        value = self.value if not isinstance(self.value, str) else self.value[:9]
        return f"{self.table.removeprefix('effectlog_')}.{self.column}={value!r}"

    def apply(self, connection: sqlite3.Connection) -> bool:
        """Put it in place; False if the database itself refuses it."""
        owner = "id" if self.table == "effectlog_runs" else "run_id"
        try:
            connection.execute(
                f"UPDATE {self.table} SET {self.column} = ? WHERE {owner} = ?", (self.value, self.run_id)
            )
        except sqlite3.IntegrityError:
            return False
        return True


VALUES = {
    "TEXT": ("cut {", "", None, 7, b"\xff\x00"),
    "INTEGER": (-7, 2**40, 2**63 - 1, None, "text"),
    "REAL": (1e300, -1e300, None, "text"),
    "BLOB": (b'{"cut', b"\xff", b'{"!":"what","v":1}', None, "text"),
}
TABLES = ("effectlog_runs", "effectlog_attempts", "effectlog_effects")
IDENTITIES = {"id", "seq", "run_id", "number", "effect_key"}
"""What makes a row belong to its run: with another value it is another row, and nobody can tell."""


def damages(path: Path) -> list[Damage]:
    with closing(sqlite3.connect(path)) as connection:
        return [
            Damage(table, column, value)
            for table in TABLES
            for _, column, kind, *_ in connection.execute(f"PRAGMA table_info({table})")
            if column not in IDENTITIES
            for value in VALUES[kind]
        ]


def run_like(run_id: str, codec: Any) -> list[c.Command]:
    """A run that was given back, with an effect completed, one in doubt, and one that may be tried again."""
    fence = c.Fence(run_id, 1)
    new = NewRun(run_id, "fuzz.damaged", codec.encode({"run": run_id}), correlation_id="c", trace="t")
    clock = RequestClock(1.0, 1.0, "boot")

    def start(key: str) -> c.StartEffect:
        return c.StartEffect(
            fence, key, 0, f"fuzz.{key}", operation_id(run_id, key, 0), 0, {}, Policy.RESEND, clock
        )

    finish = c.FinishEffect(fence, "done", c.RequestOutcome.COMPLETED, result=b'"kept"')
    give_back = c.EndAttempt(fence, AttemptOutcome.RELEASED, RunState.PENDING)
    claim = c.Claim("a", "a", 60.0, (c.TaskLimit(("fuzz.damaged",)),), 1, run_id=run_id)
    return [c.CreateRuns((new,), "s", run_id), claim, start("done"), finish, start("doubt"), give_back]


async def damaged_store(path: Path) -> dict[str, Damage]:
    """Make it; the runs with damage that the database did not refuse.

    A whole run is queued behind them all.
    """
    codec = JsonCodec()
    store = SqliteStore(path)
    await store.open()
    planned = damages(path)
    for damage in planned:
        await store.apply(run_like(damage.run_id, codec))
    await store.apply(run_like("whole", codec))
    await store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        return {damage.run_id: damage for damage in planned if damage.apply(connection)}


async def explained(log: EffectLog, run_id: str) -> str | None:
    """What people are told about a damaged run; None while nobody could know that it is one."""
    try:
        record = await (await log.get_run(run_id)).record()
    except StoreError as error:
        return f"named: {error}" if run_id in str(error) else None
    waits = record.task != "fuzz.damaged" or record.due_at.year > FAR
    ended = record.finished_at is not None and (record.state != "failed" or record.error is not None)
    return f"{record.state}: {record.error}" if ended or record.error or waits else None


async def all_explained(log: EffectLog, run_ids: list[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = dict.fromkeys(run_ids)
    while missing := [run_id for run_id, what in found.items() if what is None]:
        for run_id in missing:
            found[run_id] = await explained(log, run_id)
        await asyncio.sleep(0.05)
    return found
