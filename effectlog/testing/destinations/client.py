"""What a test holds in its hand: starts a simulated destination, instructs it, reads its counts.

Everything goes over HTTP, so a destination in a process of its own is used like one in this process.
The calls block for a moment; in a coroutine whose loop also makes the requests, use
``await asyncio.to_thread(destination.wait_for_requests, 1)``.

Invariant: leaving the ``with`` block ends the destination, its threads and its process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlencode, urlsplit

from effectlog.testing.destinations.behaviour import KEY_HEADER, KINDS, Fault
from effectlog.testing.destinations.ledger import EffectSeen, RequestSeen
from effectlog.testing.destinations.server import DestinationServer

if TYPE_CHECKING:
    from datetime import timedelta
    from pathlib import Path

    from effectlog.contract import Destination

_FIRST_ERROR: Final = 400
_TIMED_OUT: Final = 408


class AnswerError(Exception):
    """The destination answered with an error: ``status_code``, and ``body`` as it came."""

    def __init__(self, status_code: int, body: Any) -> None:
        super().__init__(status_code, body)
        self.status_code = status_code
        self.body = body


def send(url: str, payload: dict[str, Any], *, key: str | None = None, timeout: float = 10.0) -> Any:
    """Make one request and return the decoded answer; for effects in tests that need no HTTP client.

    Raises:
        AnswerError: the answer was an error.
        OSError, http.client.HTTPException: there was no answer, so the outcome is unknown.

    """
    headers = {"Content-Type": "application/json"} | ({} if key is None else {KEY_HEADER: key})
    status, answer = _call(url, "POST", json.dumps(payload), headers, timeout)
    if status >= _FIRST_ERROR:
        raise AnswerError(status, answer)
    return answer


class CountingDestination:
    """One simulated destination that counts requests and accepted effects apart.

    Args:
        kind: a name of ``KINDS``.
        db: file for its records; in memory by default.
        process: run it as a process of its own instead of in a thread of this one.
        remembers: how long it really keeps a key, instead of the kind's own time.
        index_lag: how long a look-up needs to find an effect, instead of the kind's own time.

    """

    def __init__(
        self,
        kind: str = "replay",
        *,
        db: str | Path = ":memory:",
        process: bool = False,
        remembers: timedelta | None = None,
        index_lag: timedelta | None = None,
    ) -> None:
        self.kind = kind
        self.url = ""
        self._behaviour = KINDS[kind].changed(remembers=remembers, index_lag=index_lag)
        self._db = str(db)
        self._start = self._start_process if process else self._start_thread
        self._running = ExitStack()

    @property
    def contract(self) -> Destination:
        """The contract this kind documents: the ``destination=`` of effects that use it."""
        return self._behaviour.contract

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def requests(self) -> list[RequestSeen]:
        """Every request that arrived, whatever became of it."""
        return self.wait_for_requests(0)

    def effects(self) -> list[EffectSeen]:
        """Every effect that was accepted."""
        return self.wait_for_effects(0)

    def requests_for(self, operation: str) -> list[RequestSeen]:
        return [request for request in self.requests() if request.operation == operation]

    def effects_for(self, operation: str) -> list[EffectSeen]:
        return [effect for effect in self.effects() if effect.operation == operation]

    def wait_for_requests(self, count: int, timeout: float = 10.0) -> list[RequestSeen]:
        """Wait until this many requests have arrived and return all; ``TimeoutError`` after ``timeout`` s."""
        return [RequestSeen(**request) for request in self._wait("requests", count, timeout)]

    def wait_for_effects(self, count: int, timeout: float = 10.0) -> list[EffectSeen]:
        """Wait until this many effects were accepted and return all; ``TimeoutError`` after ``timeout`` s."""
        return [EffectSeen(**effect) for effect in self._wait("effects", count, timeout)]

    def look_up(self, operation: str) -> list[EffectSeen]:
        """Ask the destination's own search, with its lag."""
        query = urlencode({"operation": operation})
        status, found = _call(f"{self.url}/effects?{query}", "GET")
        if status >= _FIRST_ERROR:
            raise AnswerError(status, found)
        return [EffectSeen(**effect) for effect in found]

    def lose_next_answer(self, times: int = 1) -> None:
        """Let the next request take effect and drop its connection instead of answering."""
        self.next_request(Fault(lose=True), times)

    def next_request(self, fault: Fault, times: int = 1) -> None:
        """Declare what goes wrong with the next request (that has no fault declared yet)."""
        self._order(fault=fault.to_json(), times=times)

    def release(self) -> None:
        """End the delays that are being waited out now."""
        self._order(release=True)

    def advance(self, duration: timedelta) -> None:
        """Move the destination's clock forward: keys grow old, the index catches up."""
        self._order(advance=duration.total_seconds())

    def forget_keys(self) -> None:
        """Forget every key at once."""
        self._order(forget_keys=True)

    def _order(self, **order: Any) -> None:
        status, answer = _call(f"{self.url}/_control", "POST", json.dumps(order))
        if status >= _FIRST_ERROR:
            raise AnswerError(status, answer)

    def _wait(self, what: str, count: int, timeout: float) -> list[dict[str, Any]]:
        query = urlencode({"count": count, "timeout": timeout})
        status, seen = _call(f"{self.url}/_control/{what}?{query}", "GET", timeout=timeout + 10)
        if status == _TIMED_OUT:
            raise TimeoutError(f"{len(seen)} {what} after {timeout} s instead of {count}: {seen}")
        found: list[dict[str, Any]] = seen
        return found

    def _start_thread(self) -> None:
        server = DestinationServer(self._behaviour, db=self._db)
        server.start()
        self._running.callback(server.close)
        self.url = server.url

    def _start_process(self) -> None:
        durations = {"--remembers": self._behaviour.remembers, "--index-lag": self._behaviour.index_lag}
        options = [
            f"{name}={value.total_seconds()}" for name, value in durations.items() if value is not None
        ]
        command = [sys.executable, "-m", "effectlog.testing.destinations", f"--kind={self.kind}", *options]
        process = self._running.enter_context(
            subprocess.Popen(  # noqa: S603 - our own module
                [*command, f"--db={self._db}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        )
        assert process.stdout is not None  # noqa: S101 - for the type checkers: a pipe was asked for
        self.url = process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError(f"the destination did not start: {' '.join(command)}")


def _call(
    url: str,
    method: str,
    body: str | None = None,
    headers: dict[str, str] | None = None,
    timeout: float = 10.0,
) -> tuple[int, Any]:
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
    try:
        path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()
