"""The kinds of destination that can be simulated, each with the contract it *documents*.

Pure data. A behaviour is what the server really does; ``contract`` is what it promises. They differ
for the two nasty kinds on purpose: ``forgets`` drops its keys long before its documented retention,
and with ``late`` the first request takes effect only after somebody looked for it.

Invariant: a kind's contract never promises more than the behaviour keeps, ``forgets`` apart.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from typing import Any, Final

from effectlog.contract import Destination, Verdict
from effectlog.destinations.answers import by_code, read_answer

KEY_HEADER: Final = "Idempotency-Key"
IN_FLIGHT: Final = "request_in_flight"
KEY_MISUSED: Final = "key_used_with_other_parameters"
EXISTS: Final = "already_exists"
NEW_KEY: Final = "take_a_new_key"
_NOTHING: Final = timedelta(0)


def _existing(error: BaseException) -> Any:
    return read_answer(error).find("existing")


_CLASSIFY: Final = by_code(
    (Verdict.IN_FLIGHT, 409, IN_FLIGHT),
    (Verdict.KEY_MISUSED, 400, KEY_MISUSED),
    (Verdict.APPLIED, 409, EXISTS),
    (Verdict.NOT_APPLIED, 422, NEW_KEY),
)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a simulated destination does.

    Args:
        contract: what it documents; ``contract.on_repeat`` is also what it does on a repeat.
        remembers: how long it really keeps a key.
        stores_below: answers with a status below this one are stored with the key and given again.
        asks_new_key: after a failed request it refuses the same key.
        index_lag: how long an effect takes to be found by a look-up; ``None``: there is no look-up.
        lands_after_look_up: the first request of an operation takes effect only after a look-up for it.

    """

    contract: Destination
    remembers: timedelta = timedelta(hours=24)
    stores_below: int = 500
    asks_new_key: bool = False
    index_lag: timedelta | None = _NOTHING
    lands_after_look_up: bool = False

    def changed(self, *, remembers: timedelta | None = None, index_lag: timedelta | None = None) -> Behaviour:
        """A copy with these durations; ``None`` keeps the kind's own."""
        return replace(
            self,
            remembers=self.remembers if remembers is None else remembers,
            index_lag=self.index_lag if index_lag is None else index_lag,
        )


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with one coming request.

    Args:
        applies: whether the request takes effect all the same.
        lose: drop the connection instead of answering.
        status: answer with this status instead of success.
        code: error code in that answer.
        delay_before: seconds between receiving the request and letting it take effect.
        delay_after: seconds between the effect and the answer. ``release()`` ends both delays early.

    """

    applies: bool = True
    lose: bool = False
    status: int | None = None
    code: str = "simulated_failure"
    delay_before: float = 0.0
    delay_after: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _contract(kind: str, **fields: Any) -> Destination:
    keyed = fields.get("on_repeat") != "ignores"
    defaults: dict[str, Any] = {
        "key_field": KEY_HEADER if keyed else None,
        "retention": timedelta(hours=24) if keyed else None,
        "settle": _NOTHING,
        "in_flight_wait": timedelta(seconds=0.05),
        "failure_rule": "forgotten",
        "source": "effectlog.testing.destinations",
        "checked_on": date(2026, 11, 1),
        "classify": _CLASSIFY,
        "existing": _existing,
    }
    return Destination(f"simulated/{kind}", **(defaults | fields))


_SEARCH: Final = "GET /effects?operation=…"
_LAG: Final = timedelta(seconds=30)

KINDS: Final[dict[str, Behaviour]] = {
    "replay": Behaviour(_contract("replay")),
    "replay_errors": Behaviour(_contract("replay_errors", failure_rule="replayed"), stores_below=600),
    "success_only": Behaviour(_contract("success_only"), stores_below=300),
    "new_key": Behaviour(_contract("new_key", failure_rule="new_key"), stores_below=300, asks_new_key=True),
    "current": Behaviour(_contract("current", on_repeat="returns_current")),
    "reject": Behaviour(_contract("reject", on_repeat="rejects")),
    "drop": Behaviour(
        _contract("drop", on_repeat="drops", retention=timedelta(minutes=5)),
        remembers=timedelta(minutes=5),
        index_lag=None,
    ),
    "look_up": Behaviour(
        _contract("look_up", on_repeat="ignores", settle=_LAG, look_up=_SEARCH), index_lag=_LAG
    ),
    "blind": Behaviour(_contract("blind", on_repeat="ignores"), index_lag=None),
    "forgets": Behaviour(_contract("forgets"), remembers=timedelta(hours=1)),
    "late": Behaviour(_contract("late", on_repeat="ignores", look_up=_SEARCH), lands_after_look_up=True),
}
"""Every kind by name."""
