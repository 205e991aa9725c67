"""What an outside system promises about a request that reaches it twice.

Holds ``Destination`` (the contract, as data), ``Verdict`` (what an error says about the request
that raised it) and ``FOREVER``. It must not talk to anything or know how an effect is executed;
the built-in contracts are in ``effectlog.destinations``.

Invariant: what the contract doesn't know makes it more careful, never less. An unknown retention
allows no automatic resend after one hour, and an error without a rule is ``Verdict.UNKNOWN``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from datetime import date, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from effectlog.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

FailureRule = Literal["replayed", "forgotten", "new_key"]
OnRepeat = Literal["replays", "returns_current", "rejects", "drops", "ignores"]
KeyPlace = Literal["header", "body", "argument", "directive"]

FOREVER: Final = timedelta.max
"""The ``retention`` of a destination that never forgets a key."""

CAUTIOUS_HORIZON: Final = timedelta(hours=1)
"""How long after the first request effectlog resends by itself where the retention is unknown."""

EXAMPLE_OPERATION_ID: Final = "7d444840-9dc0-51d1-b245-5ffdce74fad2"
"""Has the shape of every operation id: a name-based UUID, 36 lower-case characters."""

_LARGEST_MARGIN: Final = timedelta(hours=1)
_FROM_RETENTION: Final = timedelta(days=-1)  # stands for "derive it"; no real margin is negative
_DURATIONS: Final = ("retention", "margin", "settle", "in_flight_wait")


class Verdict(Enum):
    """What an error says about the one request that raised it, and about no earlier request."""

    APPLIED = "applied"
    """The destination has the operation: this error is its way to say so."""
    NOT_APPLIED = "not_applied"
    """This request did nothing."""
    IN_FLIGHT = "in_flight"
    """Another request with the same key is being executed: wait, then ask again with that key."""
    UNKNOWN = "unknown"
    """The error does not tell."""
    KEY_MISUSED = "key_misused"
    """The key was used before with other parameters: asking again can't help."""


Classifier = Callable[[BaseException], Verdict]


def says_nothing(error: BaseException) -> Verdict:  # noqa: ARG001 - the shape of a classifier
    """Classifier of a contract that has no rules: every error is ``UNKNOWN``."""
    return Verdict.UNKNOWN


def names_nothing(error: BaseException) -> Any:  # noqa: ARG001 - the shape of ``existing``
    """Answer ``None``: the error does not name the thing that exists already."""
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class Destination:
    """The contract of one outside system, or of one group of its endpoints.

    Pass it as ``@effect(..., destination=...)``. Every value but ``name`` has a default; durations
    are ``timedelta``. Change single values of a built-in contract with ``replace``::

        SQUARE.replace(retention=timedelta(hours=24))

    Args:
        name: names the endpoint group, as in ``"paypal/orders-v2"``.
        key_field: header, body field, argument or directive that carries the operation id.
        max_key_length: the longest key the destination takes, in characters.
        key_pattern: regular expression that a whole key must match.
        retention: how long the destination remembers a key, counted from the *first* request. ``None``
            means not known: effectlog then resends by itself for one hour only, because a key that was
            forgotten makes a second effect in silence. ``FOREVER`` means the key is never forgotten.
        margin: taken off the retention, for clocks that differ and for the time a request travels.
            Default: a tenth of the retention, one hour at most.
        settle: how long an earlier request may still need to show at the destination: a resend after a
            takeover waits this long, and a look-up's miss counts only after it.
        failure_rule: what a definite failure does to the key. ``"replayed"``: the failure is stored and
            comes back; ``"forgotten"``: the next request with this key is executed;
            ``"new_key"``: the destination asks for another key.
        on_repeat: what a second request with the same key yields after a success. ``"replays"``: the first
            response; ``"returns_current"``: the thing as it is now; ``"rejects"``: an error that proves it
            exists; ``"drops"``: an ordinary success and nothing else; ``"ignores"``: a second effect.
        source: address of the documentation the values were read from.
        checked_on: the day (or month, ``"2026-11"``) on which they were read.
        key_in: where ``key_field`` is.
        in_flight_wait: the first wait after an in-flight answer.
        account: label of the account, mode and region whose keys these are, as in ``"live/eu"``. Keys of one
            account mean nothing to another, so a resend under another label is refused.
        look_up: in words, how a person or a look-up function finds the operation; ``None`` where nothing is
            known to find it by.
        classify: tells what an error means. Not stored.
        existing: given an error judged ``APPLIED``, the id of the thing that exists, or ``None``. Not stored.

    Raises:
        ConfigurationError: a value can't work; the message names the contract and the field.

    """

    name: str
    _: dataclasses.KW_ONLY
    key_field: str | None = None
    max_key_length: int | None = None
    key_pattern: str | None = None
    retention: timedelta | None = None
    margin: timedelta = _FROM_RETENTION
    settle: timedelta = timedelta(seconds=2)
    failure_rule: FailureRule = "replayed"
    on_repeat: OnRepeat = "replays"
    source: str | None = None
    checked_on: date | str | None = None
    key_in: KeyPlace = "header"
    in_flight_wait: timedelta = timedelta(seconds=2)
    account: str | None = None
    look_up: str | None = None
    classify: Classifier = dataclasses.field(default=says_nothing, compare=False, repr=False)
    existing: Callable[[BaseException], Any] = dataclasses.field(
        default=names_nothing, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        _check_texts(self)
        _check_choices(self)
        if self.retention is not None:
            _check_duration(self, "retention")
        if self.margin == _FROM_RETENTION:
            object.__setattr__(self, "margin", _default_margin(self.retention))
        for field in _DURATIONS[1:]:
            _check_duration(self, field)
        if self.retention is not None and self.margin > self.retention:
            raise _refused(self, "margin", "is longer than the retention, so nothing could ever be resent")
        object.__setattr__(self, "checked_on", _as_date(self))

    @property
    def deduplicates(self) -> bool:
        """Whether a second request with the same key is harmless (while the key is remembered)."""
        return self.on_repeat != "ignores"

    def replace(self, **changes: Any) -> Destination:
        """A copy with these fields changed; a margin that was derived follows a new retention."""
        unknown = changes.keys() - {field.name for field in dataclasses.fields(self)}
        if unknown:
            raise ConfigurationError(
                f"Destination {self.name!r} has no field {', '.join(sorted(unknown))}; "
                f"its fields are {', '.join(field.name for field in dataclasses.fields(self))}.",
                destination=self.name,
            )
        if self.margin == _default_margin(self.retention):
            changes.setdefault("margin", _FROM_RETENTION)
        return dataclasses.replace(self, **changes)

    def check_operation_id(self, operation_id: str = EXAMPLE_OPERATION_ID) -> None:
        """Check that the destination can take this key; without an argument, any of effectlog's own.

        Raises:
            ConfigurationError: it is too long, or has characters that the contract forbids.

        """
        if self.max_key_length is not None and len(operation_id) > self.max_key_length:
            raise _refused(
                self,
                "max_key_length",
                f"allows {self.max_key_length} characters, and an operation id such as {operation_id!r} "
                f"has {len(operation_id)}: send a shorter value of your own and declare no key here",
            )
        if self.key_pattern is not None and not re.fullmatch(self.key_pattern, operation_id):
            raise _refused(
                self,
                "key_pattern",
                f"{self.key_pattern!r} does not match an operation id such as {operation_id!r}: check the "
                "pattern, or send a value of your own and declare no key here",
            )

    def send_horizon(self) -> timedelta | None:
        """How long after the first request the same key may be sent again; ``None``: for ever.

        Past it the destination may have forgotten the key, and a resend would be a second effect. A
        destination that ignores keys has none to forget: there the declared policy alone decides.
        """
        if not self.deduplicates or self.retention == FOREVER:
            return None
        if self.retention is None:
            return CAUTIOUS_HORIZON
        return self.retention - self.margin

    def shares_keys_with(self, other: Destination) -> bool:
        """Whether a key sent under the other contract is known to this destination as well."""
        return (self.name, self.account) == (other.name, other.account)

    def to_json(self) -> dict[str, Any]:
        """The data of the contract as JSON values; durations in seconds, ``FOREVER`` as ``"forever"``."""
        data = {name: getattr(self, name) for name in _STORED}
        for name in _DURATIONS:
            data[name] = _seconds(data[name])
        if isinstance(self.checked_on, date):
            data["checked_on"] = self.checked_on.isoformat()
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Destination:
        """Build the contract that ``to_json`` wrote, without its functions; unknown fields are ignored.

        Raises:
            ConfigurationError: the data is not a usable contract.

        """
        known: dict[str, Any] = {name: data[name] for name in _STORED if name in data}
        for name in _DURATIONS:
            if name in known:
                known[name] = _duration(known[name])
        return cls(known.pop("name", ""), **known)


# A function has no text form to store: whoever reads the record uses the contract declared in its own code.
_STORED: Final = tuple(
    field.name for field in dataclasses.fields(Destination) if field.name not in {"classify", "existing"}
)


def _default_margin(retention: timedelta | None) -> timedelta:
    """A tenth, so that a retention of five minutes keeps a useful horizon, and one hour at most."""
    return min((CAUTIOUS_HORIZON if retention is None else retention) / 10, _LARGEST_MARGIN)


def _refused(contract: Destination, field: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"Destination {contract.name!r}: {field} {why}.", destination=contract.name, field=field
    )


def _check_texts(contract: Destination) -> None:
    if not isinstance(contract.name, str) or not contract.name.strip():
        raise _refused(contract, "name", "must be a text that names the system, as in 'stripe/v1'")
    length = contract.max_key_length
    if length is not None and (not isinstance(length, int) or isinstance(length, bool) or length < 1):
        raise _refused(contract, "max_key_length", f"must be a positive number of characters, not {length!r}")
    try:
        re.compile(contract.key_pattern or "")
    except (re.error, TypeError) as error:
        raise _refused(contract, "key_pattern", f"is not a regular expression ({error})") from None
    for field in ("classify", "existing"):
        if not callable(getattr(contract, field)):
            raise _refused(contract, field, "must be a function that takes the error")


def _check_choices(contract: Destination) -> None:
    for field, choices in (("failure_rule", FailureRule), ("on_repeat", OnRepeat), ("key_in", KeyPlace)):
        value = getattr(contract, field)
        if value not in get_args(choices):
            allowed = ", ".join(repr(choice) for choice in get_args(choices))
            raise _refused(contract, field, f"must be one of {allowed}, not {value!r}")


def _check_duration(contract: Destination, field: str) -> None:
    value = getattr(contract, field)
    if not isinstance(value, timedelta):
        raise _refused(contract, field, f"must be a timedelta such as timedelta(hours=24), not {value!r}")
    if value < timedelta(0) or (field == "retention" and not value):
        raise _refused(contract, field, f"must be a positive duration, not {value}")


def _as_date(contract: Destination) -> date | None:
    value = contract.checked_on
    if value is None or isinstance(value, date):
        return value
    try:
        return date.fromisoformat(f"{value}-01" if re.fullmatch(r"\d{4}-\d{2}", value) else value)
    except (TypeError, ValueError):
        raise _refused(
            contract, "checked_on", f"must be a date or a text like '2026-11', not {value!r}"
        ) from None


def _seconds(duration: timedelta | None) -> float | str | None:
    if duration is None or duration == FOREVER:
        return None if duration is None else "forever"
    return duration.total_seconds()


def _duration(stored: object) -> object:
    if isinstance(stored, int | float) and not isinstance(stored, bool):
        return timedelta(seconds=stored)
    return FOREVER if stored == "forever" else stored
