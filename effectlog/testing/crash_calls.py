"""What the functions of effects really did while a matrix ran: calls, accepted effects, faults, sends beside them."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest import mock

from effectlog.attempt.attempt import Attempt
from effectlog.context import Request, place
from effectlog.effects.driver import Invoke

if TYPE_CHECKING:
    from collections.abc import Iterator

LOST_ANSWER = "lost answer"
DESTINATION_DOWN = "destination down"

_NETWORK_EVENTS = frozenset({"socket.connect", "http.client.send", "smtplib.send", "subprocess.Popen"})


@dataclass(slots=True)
class Calls:
    """One run's calls of effect functions, by effect key."""

    requests: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    """Calls that returned: what a destination that remembers nothing would have done."""
    keyed: set[str] = field(default_factory=set)
    """Effects whose function read the operation id, and so can send it as a key."""
    outside: set[str] = field(default_factory=set)
    """What the body sent while no effect was being requested."""
    fault: tuple[str, str] | None = None
    """(effect key, kind) of the one answer to spoil."""

    def entered(self, request: Request) -> None:
        self.requests[request.key] += 1
        if self.fault == (request.key, DESTINATION_DOWN):
            self.fault = None
            raise ConnectionRefusedError(f"simulated: the destination of {request.key!r} is down")

    def returned(self, request: Request) -> None:
        self.accepted[request.key] += 1
        if self.fault == (request.key, LOST_ANSWER):
            self.fault = None
            raise ConnectionResetError(f"simulated: the answer to {request.key!r} was lost")


_watching: list[Calls] = []


@contextlib.contextmanager
def watched(calls: Calls) -> Iterator[Calls]:
    """Watch every effect call of this process; one matrix at a time."""
    block, wait = Invoke.block, Invoke.wait
    read: Any = Request.operation_id

    def watch_block(step: Invoke) -> Any:
        calls.entered(step.request)
        value = block(step)
        calls.returned(step.request)
        return value

    async def watch_wait(step: Invoke) -> Any:
        calls.entered(step.request)
        value = await wait(step)
        calls.returned(step.request)
        return value

    def watch_id(request: Request) -> str:
        calls.keyed.add(request.key)
        return str(read.fget(request))

    _begin_auditing()
    _watching.append(calls)
    try:
        with (
            mock.patch.object(Invoke, "block", watch_block),
            mock.patch.object(Invoke, "wait", watch_wait),
            mock.patch.object(Request, "operation_id", property(watch_id)),
            # Nothing is on its way between two simulated processes, so no round waits for it to settle.
            mock.patch.object(Attempt, "settle_left", return_value=0.0),
        ):
            yield calls
    finally:
        _watching.remove(calls)


_auditing = False


def _begin_auditing() -> None:
    """Hear of network use. An audit hook can't be removed, so it is added once and sleeps between matrices."""
    global _auditing  # noqa: PLW0603 - the interpreter's hook list is global as well
    if not _auditing:
        _auditing = True
        sys.addaudithook(_heard)


def _heard(event: str, args: tuple[Any, ...]) -> None:
    if not _watching or event not in _NETWORK_EVENTS:
        return
    here = place.get()
    if here is None or isinstance(here, Request):
        return
    target = args[1] if event == "socket.connect" else args[0]
    for calls in _watching:
        calls.outside.add(f"{event} {target if event == 'socket.connect' else ''}".strip())
