"""What is played, and what must come out: the table of scenarios and forms. Pure.

Numbers of the article are here only where its text states them; a cell that can be deduced from the text
is left empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Form(StrEnum):
    """Where the wait between acceptance and result stands, and what doubt is answered by."""

    RESEND = "inside, resend, no key"
    KEYED = "inside, resend with key"
    HOLD = "inside, hold"
    AFTER = "after the effect"


class Point(StrEnum):
    """Boundaries that a worker reports as it reaches them, and can be made to stop at."""

    BEGUN = "begun"
    """In the task's body; the effect has not been called."""
    SENDING = "sending"
    """In the effect; *started* is durable, the request is not made."""
    ANSWERED = "answered"
    """In the effect; the destination has accepted."""
    RETURNED = "returned"
    """In the task's body; the effect has returned, and its *completed* record is durable."""


class Act(StrEnum):
    """What happens to worker A at the boundary."""

    NOTHING = "nothing"
    JOIN = "B starts"
    KILL = "SIGKILL"
    PAUSE = "SIGSTOP"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class Counts:
    """Requests that the destination received, and effects that it accepted: never the same thing."""

    requests: int
    effects: int

    def __str__(self) -> str:
        return f"{self.requests}/{self.effects}"


@dataclass(frozen=True, slots=True)
class Case:
    """One cell of the table: a scenario in one form, and what must come out."""

    row: str
    form: Form
    point: Point
    act: Act
    expected: Counts
    by: str
    """Who wrote the stored result; ``"AB"`` where either may."""
    held: bool = False
    """The run must wait for a decision, with the expected counts at that time."""
    resolved: Counts | None = None
    """The counts after a person has decided; none where a late outcome settles it."""
    forgetful: bool = False
    """On a store that persists neither owner nor lease, opened with the check switched off."""

    @property
    def id(self) -> str:
        return f"{self.row}-{self.form.name.lower()}"

    @property
    def keyed(self) -> bool:
        return self.form is Form.KEYED

    @property
    def blocking(self) -> bool:
        """Paused workers run a blocking call: waking late it returns its value, as nothing can cancel it."""
        return self.act is Act.PAUSE


_ONE, _KEY, _TWO, _NONE = Counts(1, 1), Counts(2, 1), Counts(2, 2), Counts(0, 0)
_INSIDE = (Form.RESEND, Form.KEYED, Form.HOLD)


def _uninterrupted(row: str, act: Act) -> list[Case]:
    points = {form: Point.RETURNED if form is Form.AFTER else Point.ANSWERED for form in Form}
    return [Case(row, form, points[form], act, _ONE, "A") for form in Form]


def _before(row: str, act: Act, forms: tuple[Form, ...]) -> list[Case]:
    return [Case(row, form, Point.BEGUN, act, _ONE, "B") for form in forms]


def _started() -> list[Case]:
    row, point, act = "S3b", Point.SENDING, Act.KILL
    sent = [Case(row, form, point, act, _ONE, "B") for form in (Form.RESEND, Form.KEYED)]
    return [*sent, Case(row, Form.HOLD, point, act, _NONE, "B", held=True, resolved=_ONE)]


def _accepted(rows: dict[Form, str], act: Act) -> list[Case]:
    paused = act is Act.PAUSE
    hold_by, resolved = ("AB", None) if paused else ("B", _ONE)
    return [
        Case(rows[Form.RESEND], Form.RESEND, Point.ANSWERED, act, _TWO, "B"),
        Case(rows[Form.KEYED], Form.KEYED, Point.ANSWERED, act, _KEY, "B"),
        Case(rows[Form.HOLD], Form.HOLD, Point.ANSWERED, act, _ONE, hold_by, held=True, resolved=resolved),
        Case(rows[Form.AFTER], Form.AFTER, Point.RETURNED, act, _ONE, "B"),
    ]


CASES: tuple[Case, ...] = (
    *_uninterrupted("S1", Act.NOTHING),
    *_uninterrupted("S2", Act.JOIN),
    *_before("S3a", Act.KILL, _INSIDE),
    *_started(),
    *_accepted({form: "S5" if form is Form.KEYED else "S4" for form in Form}, Act.KILL),
    *_accepted(dict.fromkeys(Form, "S6"), Act.PAUSE),
    *_accepted(dict.fromkeys(Form, "S7a"), Act.RELEASE),
    *_before("S7b", Act.RELEASE, tuple(Form)),
    Case("P1", Form.KEYED, Point.ANSWERED, Act.JOIN, _KEY, "A", forgetful=True),
    Case("P2", Form.KEYED, Point.ANSWERED, Act.PAUSE, _KEY, "B", forgetful=True),
    Case("P3", Form.RESEND, Point.ANSWERED, Act.JOIN, _TWO, "A", forgetful=True),
)
"""Every case, in the order of the table."""

TITLES = {
    "S1": "nothing interrupted",
    "S2": "A alive under a live lease, B starts",
    "S3a": "A killed before *started* is durable",
    "S3b": "A killed between *started* and the request",
    "S4": "A killed after acceptance, no key",
    "S5": "A killed after acceptance, key",
    "S6": "A paused after acceptance, B finishes, A resumes",
    "S7a": "A releases after acceptance",
    "S7b": "A releases before the request",
    "P1": "no owner or lease persisted; key; nobody killed",
    "P2": "no owner or lease persisted; key; A paused",
    "P3": "no owner or lease persisted; no key; nobody killed",
}


@dataclass(frozen=True, slots=True)
class Stated:
    """What the article's text states of a scenario, of its own system."""

    counts: Counts | None = None
    by: str = ""
    takeover: str = ""


STATED = {
    "S2": Stated(takeover="B must not execute"),
    "S4": Stated(_TWO, "B", "3,979 to 4,007 ms"),
    "S5": Stated(_KEY),
    "S6": Stated(_KEY, "B"),
    "S7a": Stated(takeover="281 to 285 ms"),
    "P1": Stated(_KEY, "A", "while A worked"),
    "P2": Stated(_KEY, "B", "at B's start"),
    "P3": Stated(_TWO, takeover="while A worked"),
}
"""Per row, for the one form that the article had: the wait inside the call, sent again after a takeover."""
