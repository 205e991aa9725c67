"""The destination of the demo: takes charges over HTTP and writes them to a SQLite file of its own.

``POST /charges`` charges; a key in ``Idempotency-Key`` is unique, so that a repeat gets the first answer.
``POST /slow/charges`` does the same, but the first answer of an order is held back until the caller has
hung up: that is how a worker dies after the acceptance and before it hears of it.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from effectlog.demo.events import tell

_PATIENCE = 10.0
"""Seconds for which an answer is held back at most."""

_SCHEMA = """
CREATE TABLE requests (id INTEGER PRIMARY KEY, charged TEXT NOT NULL, key TEXT);
CREATE TABLE effects (id INTEGER PRIMARY KEY, charged TEXT NOT NULL, key TEXT UNIQUE, cents INTEGER NOT NULL);
"""


class Book:
    """What arrived and what took effect, apart; key and effect are one transaction."""

    def __init__(self, path: str) -> None:
        self._mutex = threading.Lock()
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.executescript(_SCHEMA)

    def charge(self, order: str, cents: int, key: str | None) -> tuple[int, bool, dict[str, int]]:
        """The effect's number, whether this request made it, and the order's counts with it."""
        with self._mutex:
            self._db.execute("INSERT INTO requests (charged, key) VALUES (?, ?)", (order, key))
            made = self._db.execute(
                "INSERT INTO effects (charged, key, cents) VALUES (?, ?, ?) ON CONFLICT DO NOTHING "
                "RETURNING id",
                (order, key, cents),
            ).fetchone()
            found = made or self._db.execute("SELECT id FROM effects WHERE key = ?", (key,)).fetchone()
            return int(found[0]), made is not None, self._counts(order)

    def counts(self, order: str) -> dict[str, int]:
        """Requests and accepted effects of an order."""
        with self._mutex:
            return self._counts(order)

    def _counts(self, order: str) -> dict[str, int]:
        return {table: self._count(table, order) for table in ("requests", "effects")}

    def _count(self, table: str, order: str) -> int:
        (count,) = self._db.execute(
            f"SELECT count(*) FROM {table} WHERE charged = ?",  # noqa: S608 - our own two names
            (order,),
        ).fetchone()
        return int(count)


class _Handler(BaseHTTPRequestHandler):
    book: Book

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number, made, counts = self.book.charge(body["order"], body["cents"], self.headers["Idempotency-Key"])
        tell("accepted" if made else "duplicate", order=body["order"], nth=counts["effects"])
        if self.path.startswith("/slow/") and counts["requests"] == 1:
            self._wait_until_hung_up()
        self._answer({"charge": f"ch_{number}"})

    def do_GET(self) -> None:
        self._answer(self.book.counts(self.path.rpartition("/")[2]))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing: the demo tells the story."""

    def _wait_until_hung_up(self) -> None:
        self.connection.settimeout(_PATIENCE)
        with suppress(OSError):
            self.connection.recv(1)

    def _answer(self, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        with suppress(OSError):  # Nobody is there any more: the point of the demo.
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)


def main(path: str) -> None:
    """Serve until the demo is over."""
    from effectlog.demo import exit_with_parent  # noqa: F401, PLC0415 - importing it is using it

    handler = type("Handler", (_Handler,), {"book": Book(path)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    tell("listening", url=f"http://127.0.0.1:{server.server_address[1]}")
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
