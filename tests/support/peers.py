"""Real sockets that misbehave in one way each, for provoking the exceptions clients really raise."""

from __future__ import annotations

import json
import socket
import struct
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime


@contextmanager
def refusing() -> Iterator[int]:
    """A port that is taken, so that nobody else gets it, and on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@contextmanager
def overfull() -> Iterator[int]:
    """A listener whose backlog is full: a further connect is neither accepted nor refused."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            with suppress(BlockingIOError):
                filler.connect(listener.getsockname())
        yield listener.getsockname()[1]
        for filler in fillers:
            filler.close()


@contextmanager
def _serving(talk: Any) -> Iterator[int]:
    """Hand every connection to ``talk`` in a thread of its own until the block ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    connections: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection = listener.accept()[0]
                connections.append(connection)
                threads.append(threading.Thread(target=_quietly, args=(talk, connection)))
                threads[-1].start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield listener.getsockname()[1]
    finally:
        for open_socket in (listener, *connections):
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
            open_socket.close()
        for thread in (acceptor, *threads):
            thread.join()


def _quietly(talk: Any, connection: socket.socket) -> None:
    with suppress(OSError):
        talk(connection)


def silent() -> Any:
    """Reads the request and never answers."""

    def talk(connection: socket.socket) -> None:
        while connection.recv(65536):
            pass

    return _serving(talk)


def resetting() -> Any:
    """Reads the request and resets the connection."""

    def talk(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    return _serving(talk)


def smtp(**replies: str) -> Any:
    """An SMTP server that accepts everything, but for the commands given a reply here.

    ``greeting`` and ``end`` (of the data) count as commands; an empty reply hangs up.
    """

    def talk(connection: socket.socket) -> None:
        stream = connection.makefile("rwb", buffering=0)

        def say(command: str, usual: str) -> bool:
            reply = replies.get(command, usual)
            if reply:
                stream.write(reply.encode() + b"\r\n")
            else:
                connection.shutdown(socket.SHUT_RDWR)
            return bool(reply)

        if not say("greeting", "220 here"):
            return
        while line := stream.readline():
            command = line.split()[0].decode().lower()
            if not say(command, {"data": "354 go on", "quit": "221 bye"}.get(command, "250 ok")):
                return
            if command == "data" and replies.get("data", "354")[0] == "3":
                while stream.readline() != b".\r\n":
                    pass
                if not say("end", "250 queued"):
                    return

    return _serving(talk)


@contextmanager
def answering(
    status: int, body: Any, headers: dict[str, str] | None = None, *, sent_at: datetime | None = None
) -> Iterator[tuple[str, list[Any]]]:
    """An HTTP server with one answer for everything; yields its URL and the headers it received.

    ``sent_at``: what its clock shows.
    """
    received: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            received.append(self.headers)
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(sent_at.timestamp() if sent_at else timestamp)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
