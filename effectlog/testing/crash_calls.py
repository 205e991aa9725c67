"""What effect functions really did while a matrix ran: calls, accepted effects, faults, other sends."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from effectlog.context import Request, place
from effectlog.log import EffectLog

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

    @contextlib.contextmanager
    def around(self, request: Request) -> Iterator[None]:
        """Count one call of an effect's function, and spoil it where that is its fault."""
        self.requests[request.key] += 1
        if self._spoils(request, DESTINATION_DOWN):
            raise ConnectionRefusedError(f"simulated: the destination of {request.key!r} is down")
        try:
            yield
        finally:
            if request.operation_id_read:
                self.keyed.add(request.key)
        self.accepted[request.key] += 1
        if self._spoils(request, LOST_ANSWER):
            raise ConnectionResetError(f"simulated: the answer to {request.key!r} was lost")

    def _spoils(self, request: Request, kind: str) -> bool:
        """Whether this is the answer to spoil; it is spoiled once."""
        if self.fault != (request.key, kind):
            return False
        self.fault = None
        return True


class WatchedLog(EffectLog):
    """A log that counts the calls of effect functions, and whose requests have settled when they return.

    Nothing is on its way between two simulated processes, so no round waits for it.
    """

    def __init__(self, store: Any, calls: Calls, **options: Any) -> None:
        super().__init__(store, **options)
        self._runtime = replace(self._runtime, around_request=calls.around, longest_settle=0.0)


_watching: list[Calls] = []


@contextlib.contextmanager
def sends_heard(calls: Calls) -> Iterator[Calls]:
    """Note what this process sends outside of effects; one matrix at a time."""
    _begin_auditing()
    _watching.append(calls)
    try:
        yield calls
    finally:
        _watching.remove(calls)


_auditing = False


def _begin_auditing() -> None:
    """Hear of network use.

    An audit hook can't be removed, so it is added once and sleeps between matrices.
    """
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
