"""What a simulated destination has seen and done, in a SQLite file of its own.

Requests and accepted effects are recorded apart, because counting them apart is the point of every
test that uses this. The file is the destination's, never the task store's: no transaction spans both.

Invariant: an effect, its key and the request's outcome are written in one transaction, and a key is
unique, so of any number of simultaneous requests with one key exactly one takes effect.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS requests (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, operation TEXT NOT NULL, key TEXT, body TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN
        ('received', 'accepted', 'duplicate', 'in_flight', 'misused', 'refused', 'failed'))
);
CREATE TABLE IF NOT EXISTS effects (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, operation TEXT NOT NULL, key TEXT, body TEXT NOT NULL,
    request_id INTEGER NOT NULL UNIQUE REFERENCES requests (id)
);
CREATE TABLE IF NOT EXISTS keys (
    key TEXT PRIMARY KEY, first_at REAL NOT NULL, body TEXT NOT NULL,
    status INTEGER NOT NULL, answer TEXT NOT NULL, effect_id INTEGER UNIQUE REFERENCES effects (id)
);
"""


@dataclass(frozen=True, slots=True)
class RequestSeen:
    """One request that arrived. ``at`` is in seconds since 1970 by the destination's clock."""

    id: int
    at: float
    operation: str
    key: str | None
    body: dict[str, Any]
    outcome: str


@dataclass(frozen=True, slots=True)
class EffectSeen:
    """One effect that was accepted: the mail that went out, the money that moved."""

    id: int
    at: float
    operation: str
    key: str | None
    body: dict[str, Any]
    request_id: int


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key and the answer that belongs to it."""

    body: str
    status: int
    answer: dict[str, Any]
    effect_id: int | None


class Ledger:
    """The file. One connection, used under one mutex; ``transaction`` is the only way to write."""

    def __init__(self, path: str) -> None:
        self._mutex = threading.RLock()
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.row_factory = sqlite3.Row
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")  # a test's destination need not survive a power cut
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        with self._mutex:
            self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._mutex:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def receive(self, at: float, operation: str, key: str | None, body: str) -> int:
        """Record the arrival of a request and return its id."""
        with self.transaction():
            return self._insert(
                "INSERT INTO requests (at, operation, key, body, outcome) VALUES (?, ?, ?, ?, 'received')",
                (at, operation, key, body),
            )

    def settle(self, request: int, outcome: str) -> None:
        self._db.execute("UPDATE requests SET outcome = ? WHERE id = ?", (outcome, request))

    def accept(self, request: int, at: float) -> int:
        """Turn a received request into an effect and return the effect's id."""
        self.settle(request, "accepted")
        return self._insert(
            "INSERT INTO effects (at, operation, key, body, request_id)"
            " SELECT ?, operation, key, body, id FROM requests WHERE id = ?",
            (at, request),
        )

    def remember(self, key: str, first_at: float, stored: StoredKey) -> None:
        self._db.execute(
            "INSERT INTO keys (key, first_at, body, status, answer, effect_id) VALUES (?, ?, ?, ?, ?, ?)",
            (key, first_at, stored.body, stored.status, json.dumps(stored.answer), stored.effect_id),
        )

    def recall(self, key: str, oldest: float) -> StoredKey | None:
        """The key if it was first used after ``oldest``; an older one is forgotten for good."""
        self._db.execute("DELETE FROM keys WHERE key = ? AND first_at <= ?", (key, oldest))
        row = self._db.execute("SELECT * FROM keys WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        return StoredKey(row["body"], row["status"], json.loads(row["answer"]), row["effect_id"])

    def forget_keys(self) -> None:
        with self.transaction():
            self._db.execute("DELETE FROM keys")

    def requests(self) -> list[dict[str, Any]]:
        return [asdict(RequestSeen(**_row(row))) for row in self._all("requests")]

    def effects(self) -> list[dict[str, Any]]:
        return [asdict(EffectSeen(**_row(row))) for row in self._all("effects")]

    def _all(self, table: str) -> list[sqlite3.Row]:
        with self._mutex:
            everything = f"SELECT * FROM {table} ORDER BY id"  # noqa: S608 - our own names
        return self._db.execute(everything).fetchall()

    def _insert(self, statement: str, values: tuple[Any, ...]) -> int:
        row = self._db.execute(statement + " RETURNING id", values).fetchone()
        return int(row[0])


def _row(row: sqlite3.Row) -> dict[str, Any]:
    return {**row, "body": json.loads(row["body"])}
