"""Puts a simulated destination on HTTP, in this process or in one of its own.

``POST`` to any path is a request: a JSON object with ``operation``, its key in ``Idempotency-Key``.
``GET /effects?operation=…`` is the look-up. Everything under ``/_control`` is for the test.

Invariant: ``close`` returns only when no request is being handled any more.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import threading
from contextlib import suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from effectlog.testing.destinations.behaviour import KEY_HEADER, KINDS, Behaviour, Fault
from effectlog.testing.destinations.ledger import Ledger
from effectlog.testing.destinations.receiver import Receiver, Reply


class DestinationServer(ThreadingHTTPServer):
    """The HTTP side of one ``Receiver``; serves from a thread of its own until ``close``."""

    daemon_threads = False  # so that close() joins them and none touches a closed database
    request_queue_size = 128

    def __init__(self, behaviour: Behaviour, *, db: str = ":memory:", port: int = 0) -> None:
        self.receiver = Receiver(behaviour, Ledger(db))
        super().__init__(("127.0.0.1", port), type("Handler", (_Handler,), {"receiver": self.receiver}))
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), name="destination")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self.receiver.close()
        self.shutdown()
        self._thread.join()
        self.server_close()
        self.receiver.ledger.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that died before its answer is what this server is for; report anything else."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    receiver: Receiver
    timeout = 5  # seconds for a connection on which no request comes

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        data = self.rfile.read(length)
        if len(data) < length:
            self.close_connection = True
            return  # Its sender died in the middle: that is no request.
        body = json.loads(data or b"{}")
        if self.path == "/_control":
            self._answer(_control(self.receiver, body))
        else:
            self._answer(self.receiver.handle(self.headers.get(KEY_HEADER), body))

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query))
        if url.path == "/effects":
            self._answer(self.receiver.look_up(**query))
        elif url.path in {"/_control/requests", "/_control/effects"}:
            count, seconds = int(query.get("count", 0)), float(query.get("timeout", 0))
            self._answer(self.receiver.wait_for(url.path.rpartition("/")[2], count, seconds))
        else:
            self._answer(Reply(404, {"error": {"code": "no_such_page"}}))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing: the ledger is the record."""

    def _answer(self, reply: Reply | None) -> None:
        if reply is None:
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        data = json.dumps(reply.body).encode()
        self.send_response(reply.status)
        for name, value in (reply.headers | {"Content-Type": "application/json"}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _control(receiver: Receiver, order: dict[str, Any]) -> Reply:
    match order:
        case {"fault": fault, "times": times}:
            receiver.add_fault(Fault(**fault), times)
        case {"advance": seconds}:
            receiver.advance(seconds)
        case {"forget_keys": _}:
            receiver.ledger.forget_keys()
        case {"release": _}:
            receiver.release()
        case _:
            return Reply(400, {"error": {"code": "no_such_order"}})
    return Reply(200, {})


def main(arguments: list[str] | None = None) -> None:
    """Serve one destination until standard input ends, so that it never outlives its test."""
    parser = argparse.ArgumentParser(
        prog="python -m effectlog.testing.destinations", description=main.__doc__
    )
    parser.add_argument("--kind", choices=sorted(KINDS), default="replay")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--db", default=":memory:", help="file of the destination's own records")
    parser.add_argument(
        "--remembers", type=float, metavar="S", help="seconds for which it really keeps a key"
    )
    parser.add_argument(
        "--index-lag", type=float, metavar="S", help="seconds until a look-up finds an effect"
    )
    options = parser.parse_args(arguments)
    behaviour = KINDS[options.kind].changed(
        remembers=_duration(options.remembers), index_lag=_duration(options.index_lag)
    )
    server = DestinationServer(behaviour, db=options.db, port=options.port)
    server.start()
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    try:
        sys.stdin.read()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()


def _duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
