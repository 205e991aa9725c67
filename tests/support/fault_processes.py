"""What the fault suites hold in their hands: a store, a destination that counts, and processes to hurt."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import fault_app

from effectlog import AttemptOutcome, RunState
from support import APPS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from effectlog import EffectLog, RunRecord
    from effectlog.testing import CountingDestination

APP = APPS / "fault_app.py"


class Extra(NamedTuple):
    """One request beyond the first of its effect, and who made it."""

    run_id: str
    key: str
    attempt: int
    pid: int


class Crew:
    """Processes on one store file; whoever is still there at the end is killed."""

    def __init__(self, db: Path, destination: str = "") -> None:
        self.db = db
        self.alive: list[int] = []
        self.killed: set[int] = set()
        self._destination = destination
        self._errors = db.with_suffix(".errors")
        self._forker = subprocess.Popen(
            [sys.executable, str(APP)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, role: str, **options: Any) -> int:
        order = {"role": role, "db": str(self.db), "options": options, "errors": str(self._errors)}
        pid = self._order(order | {"environment": {"DESTINATION": self._destination}})
        self.alive.append(pid)
        return pid

    def _order(self, order: dict[str, Any]) -> int:
        assert self._forker.stdin is not None
        assert self._forker.stdout is not None
        self._forker.stdin.write(json.dumps(order) + "\n")
        self._forker.stdin.flush()
        return int(self._forker.stdout.readline())

    def kill(self, pid: int) -> None:
        """Kill it; on return it is gone."""
        os.kill(pid, signal.SIGKILL)
        self.killed.add(pid)
        assert self.wait(pid) == -signal.SIGKILL

    def stop_all(self) -> None:
        """Let the workers drain, and see that they end as they should."""
        for pid in self.alive:
            os.kill(pid, signal.SIGTERM)
        ended = {self.wait(pid) for pid in list(self.alive)}
        # One that was still opening its log had not taken the signal over yet.
        assert ended <= {0, -signal.SIGTERM}, self.errors()

    @contextmanager
    def paused(self, pid: int) -> Iterator[None]:
        """Stop it wherever it is, and let it go on at the end."""
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def wait(self, pid: int) -> int:
        """Its exit status, once it has ended."""
        status = self._order({"wait": pid})
        self.alive.remove(pid)
        return status

    def errors(self) -> str:
        """What the processes wrote to standard error."""
        return self._errors.read_text() if self._errors.exists() else ""

    def close(self) -> None:
        for pid in list(self.alive):
            self.kill(pid)
        assert self._forker.stdin is not None
        assert self._forker.stdout is not None
        self._forker.stdin.close()
        self._forker.wait()
        self._forker.stdout.close()


def whole(db: Path) -> bool:
    """SQLite's own check of the file."""
    with closing(sqlite3.connect(db)) as connection:
        found: list[tuple[str]] = connection.execute("PRAGMA integrity_check").fetchall()
        return found == [("ok",)]


def requests_made(destination: CountingDestination) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """By run and effect key: the attempt and the process of each request, as the destination saw them."""
    made: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for request in destination.requests():
        run_id, _, number = request.operation.partition("/")
        by = (request.body["attempt"], request.body["pid"])
        made.setdefault((run_id, f"send:{number}"), []).append(by)
    return made


def judge(records: list[RunRecord], destination: CountingDestination) -> list[Extra]:
    """Whether every run is done, every effect happened once, and every second request follows a lost attempt.

    Gives the requests beyond the first of each effect; requests and effects differ by those and by nothing
    else.
    """
    assert {record.state for record in records} == {RunState.SUCCEEDED}
    assert all(record.result == list(range(fault_app.EFFECTS)) for record in records)
    made = requests_made(destination)
    assert len(destination.effects()) == len(made) == len(records) * fault_app.EFFECTS
    lost = {(r.id, a.number) for r in records for a in r.attempts if a.outcome is AttemptOutcome.EXPIRED}
    extra = []
    for record in records:
        for effect in record.effects:
            requests = made[record.id, effect.key]
            where = f"{record.id} {effect.key}: {requests}"
            assert len({attempt for attempt, _ in requests}) == len(requests), (
                f"twice in one attempt: {where}"
            )
            assert effect.requests >= len(requests), f"a request without a record: {where}"
            given_up = [Extra(record.id, effect.key, *by) for by in requests if (record.id, by[0]) in lost]
            assert len(given_up) >= len(requests) - 1, f"repeated though no attempt was lost: {where}"
            extra += given_up[: len(requests) - 1]
    assert len(destination.requests()) - len(destination.effects()) == len(extra)
    return extra


def write_locked(db: Path, seconds: float = 1.0) -> bool:
    """Whether somebody keeps a write transaction open for so long."""
    with closing(sqlite3.connect(db, timeout=seconds, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        connection.execute("ROLLBACK")
        return False


async def left(log: EffectLog) -> int:
    """How many runs have not ended."""
    store = log.administration.engine.store
    states = (await log.administration.engine.read(store.health()))["states"]
    assert isinstance(states, dict)
    return sum(count for state, count in states.items() if not RunState(state).ended)
