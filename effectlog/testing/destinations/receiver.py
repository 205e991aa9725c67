"""Decides what a simulated destination does with a request. No HTTP here; ``server`` adds that.

Invariant: a request is recorded when it arrives, before anything else happens to it, so a test that
waits for a request can kill the sender at that very moment and still be sure of the count.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from effectlog.testing.destinations.behaviour import EXISTS, IN_FLIGHT, KEY_MISUSED, NEW_KEY, Behaviour, Fault
from effectlog.testing.destinations.ledger import Ledger, StoredKey

if TYPE_CHECKING:
    from collections.abc import Iterator

_OK: Final = 200
_FIRST_ERROR: Final = 400
_LONGEST_WAIT: Final = 60.0  # seconds; a forgotten ``release`` must not keep a test run from ending


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer."""

    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)


class Receiver:
    """One simulated destination: its behaviour, its ledger, its clock and the faults to come."""

    def __init__(self, behaviour: Behaviour, ledger: Ledger) -> None:
        self.behaviour = behaviour
        self.ledger = ledger
        self._changed = threading.Condition()
        self._faults: list[Fault] = []
        self._executing: set[str] = set()
        self._seen: set[str] = set()
        self._looked_up: set[str] = set()
        self._offset = 0.0
        self._releases = 0
        self._closing = False

    def now(self) -> float:
        return time.time() + self._offset

    def advance(self, seconds: float) -> None:
        """Move the destination's clock, so that it forgets keys or finishes its index."""
        self._offset += seconds

    def add_fault(self, fault: Fault, times: int) -> None:
        with self._changed:
            self._faults += [fault] * times

    def release(self) -> None:
        """End every delay that is being waited out now."""
        with self._changed:
            self._releases += 1
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def handle(self, key: str | None, body: dict[str, Any]) -> Reply | None:
        """Take one request; ``None`` means that its answer is lost."""
        operation, text = str(body.get("operation", "")), json.dumps(body, sort_keys=True)
        request = self.ledger.receive(self.now(), operation, key, text)
        fault = self._arrived()
        key = key if self.behaviour.contract.deduplicates else None
        with ExitStack() as shown_at_once, self._alone(key) as alone:
            if not alone:
                return self._overlap(request)
            self._pause(fault.delay_before)
            self._wait_for_look_up(operation)
            # Whoever waits for the effect may repeat the request as soon as it is there.
            shown_at_once.enter_context(self._changed)
            reply = self._execute(request, key, text, fault)
        self._notify()
        self._pause(fault.delay_after)
        return None if fault.lose else reply

    def look_up(self, **wanted: str) -> Reply:
        """Find effects by operation or key, as far as the index has got."""
        lag = self.behaviour.index_lag
        if lag is None:
            return Reply(404, {"error": {"code": "no_such_search"}})
        oldest = self.now() - lag.total_seconds()
        effects = [effect for effect in self.ledger.effects() if effect["at"] <= oldest]
        found = [e for e in effects if all(e.get(name) == value for name, value in wanted.items())]
        with self._changed:
            self._looked_up.add(wanted.get("operation", ""))
            self._changed.notify_all()
        return Reply(_OK, found)

    def wait_for(self, what: str, count: int, seconds: float) -> Reply:
        """The requests or effects, as soon as there are this many; status 408 if there aren't in time."""
        read = self.ledger.requests if what == "requests" else self.ledger.effects
        with self._changed:
            enough = self._changed.wait_for(lambda: self._closing or len(read()) >= count, seconds)
        return Reply(_OK if enough else 408, read())

    def _arrived(self) -> Fault:
        with self._changed:
            self._changed.notify_all()
            return self._faults.pop(0) if self._faults else Fault()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    @contextmanager
    def _alone(self, key: str | None) -> Iterator[bool]:
        """Whether no other request with this key is being executed, which holds until the block ends."""
        with self._changed:
            alone = key not in self._executing
            if alone and key is not None:
                self._executing.add(key)
        try:
            yield alone
        finally:
            if alone and key is not None:
                with self._changed:
                    self._executing.discard(key)

    def _pause(self, seconds: float) -> None:
        with self._changed:
            releases = self._releases
            self._changed.wait_for(lambda: self._closing or self._releases > releases, seconds)

    def _wait_for_look_up(self, operation: str) -> None:
        if not self.behaviour.lands_after_look_up:
            return
        with self._changed:
            first = operation not in self._seen
            self._seen.add(operation)
            releases = self._releases
            if first:
                self._changed.wait_for(
                    lambda: self._closing or operation in self._looked_up or self._releases > releases,
                    _LONGEST_WAIT,
                )

    def _overlap(self, request: int) -> Reply:
        drops = self.behaviour.contract.on_repeat == "drops"
        with self.ledger.transaction():
            self.ledger.settle(request, "duplicate" if drops else "in_flight")
        return Reply(_OK, {"id": None}) if drops else _error(409, IN_FLIGHT)

    def _execute(self, request: int, key: str | None, text: str, fault: Fault) -> Reply:
        oldest = self.now() - self.behaviour.remembers.total_seconds()
        with self.ledger.transaction():
            stored = self.ledger.recall(key, oldest) if key is not None else None
            if stored is not None:
                return self._repeat(request, stored, text)
            reply, effect = self._perform(request, text, fault)
            if key is not None and self._keeps(reply.status, fault):
                self.ledger.remember(key, self.now(), StoredKey(text, reply.status, reply.body, effect))
            return reply

    def _perform(self, request: int, text: str, fault: Fault) -> tuple[Reply, int | None]:
        effect = self.ledger.accept(request, self.now()) if fault.applies else None
        if effect is None:
            self.ledger.settle(request, "failed")
        if fault.status is not None:
            return _error(fault.status, fault.code), effect
        return Reply(_OK, {"id": f"effect-{effect}", "operation": json.loads(text).get("operation")}), effect

    def _keeps(self, status: int, fault: Fault) -> bool:
        if not fault.applies and fault.status is None:  # never got as far as the destination's own records
            return False
        return status < self.behaviour.stores_below or self.behaviour.asks_new_key

    def _repeat(self, request: int, stored: StoredKey, text: str) -> Reply:
        on_repeat = self.behaviour.contract.on_repeat
        outcome, reply = "duplicate", Reply(_OK, {"id": None})
        if on_repeat == "rejects":
            reply = _error(409, EXISTS, existing=f"effect-{stored.effect_id}")
        elif on_repeat != "drops" and stored.body != text:
            outcome, reply = "misused", _error(400, KEY_MISUSED)
        elif self.behaviour.asks_new_key and stored.status >= _FIRST_ERROR:
            outcome, reply = "refused", _error(422, NEW_KEY)
        elif on_repeat == "returns_current":
            reply = Reply(_OK, {**stored.answer, "state": "as it is now"})
        elif on_repeat == "replays":
            reply = Reply(stored.status, stored.answer, {"Idempotent-Replayed": "true"})
        self.ledger.settle(request, outcome)
        return reply


def _error(status: int, code: str, **more: Any) -> Reply:
    return Reply(status, {"error": {"code": code, **more}})
