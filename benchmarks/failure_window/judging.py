"""What a run's record must show, case by case. Pure.

``wrong`` is what may never be: a count, an owner, a result, or a takeover before the lease had ended.
``late`` is a takeover that took longer than aimed at, which a busy machine can cause.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.failure_window.scenarios import Act, Case, Counts, Form

if TYPE_CHECKING:
    from collections.abc import Iterator

AIM = {
    "sqlite": {Act.KILL: 100.0, Act.RELEASE: 100.0, Act.PAUSE: 500.0},
    "postgres": {Act.KILL: 500.0, Act.RELEASE: 100.0, Act.PAUSE: 500.0},
}
"""Milliseconds by store: after the kill, after the release, and for a pause after the recorded expiry."""
_INTERRUPTED = (Act.KILL, Act.RELEASE, Act.PAUSE)
_CLOCKS_AGREE = 5.0
"""Milliseconds by which a store's wall clock may differ from the one that events are told by."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one record shows, and where that differs from what was specified."""

    takeover: float | None
    """Milliseconds from the interruption (or B's start) to the begin of B's attempt."""
    after_expiry: float | None
    """Milliseconds from the recorded end of the lease to the begin of B's attempt."""
    wrong: tuple[str, ...]
    late: tuple[str, ...]


def judge(record: dict[str, Any], case: Case) -> Judgement:
    """Compare one record with its case."""
    if "failed" in record:
        return Judgement(None, None, (record["failed"],), ())
    takeover, after_expiry = _takeover(record), _after_expiry(record, case)
    wrong = [*_wrong_counts(record, case), *_wrong_owners(record, case)]
    if case.forgetful:
        wrong += _wrong_refusal(record)
    elif case.act is Act.PAUSE:
        wrong += [*_too_early(record), *_unrefused(record, case)]
    measured = after_expiry if case.act is Act.PAUSE else takeover
    aim = None if case.forgetful else AIM[record["store"]].get(case.act)
    late = []
    if aim is not None and measured is not None and measured > aim:
        since = "the recorded expiry" if case.act is Act.PAUSE else case.act.value
        late.append(f"B began {measured:.0f} ms after {since}; the aim is {aim:.0f} ms")
    return Judgement(takeover, after_expiry, tuple(wrong), tuple(late))


def counts(record: dict[str, Any]) -> Counts:
    """Requests and accepted effects, as the destination has them at the end."""
    return Counts(len(record["requests"]), len(record["effects"]))


def _wrong_counts(record: dict[str, Any], case: Case) -> Iterator[str]:
    held = record["held"]
    if case.held and held is None:
        yield "the run was not held"
    if not case.held and held is not None:
        yield "the run was held"
    first = Counts(held["requests"], held["effects"]) if held else counts(record)
    if first != case.expected:
        yield f"{first} instead of {case.expected}"
    if held and counts(record) != (case.resolved or case.expected):
        yield f"{counts(record)} after the decision instead of {case.resolved or case.expected}"


def _wrong_owners(record: dict[str, Any], case: Case) -> Iterator[str]:
    if record["state"] != "succeeded":
        yield f"the run ended {record['state']}"
    elif record["result"]["by"] not in case.by:
        yield f"the stored result is {record['result']['by']}'s instead of {case.by}'s"
    if record["result"] != record["result_as_returned"]:
        yield f"the result was {record['result_as_returned']} and is stored as {record['result']}"
    workers = [attempt["worker"] for attempt in record["attempts"]]
    executed = {event["who"] for event in record["events"] if event["event"] == "begun"}
    if case.act in (Act.NOTHING, Act.JOIN) and not case.forgetful and (workers != ["A"] or executed != {"A"}):
        yield f"attempts of {workers}, executed by {sorted(executed)}, instead of A's one"
    if (case.act in _INTERRUPTED or case.forgetful) and workers[:2] != ["A", "B"]:
        yield f"attempts of {workers} instead of A's and B's"
    ended = {Act.KILL: "expired", Act.PAUSE: "expired", Act.RELEASE: "released"}.get(case.act)
    if ended and not case.forgetful and record["attempts"][0]["outcome"] != ended:
        yield f"A's attempt is stored as {record['attempts'][0]['outcome']} instead of {ended}"


def _wrong_refusal(record: dict[str, Any]) -> Iterator[str]:
    guarantee = record["refused_at_open"].get("guarantee")
    if guarantee != "owner and lease are stored":
        yield f"at open the store was refused for {guarantee!r}"
    if any(reading["owner"] or reading["lease_expires"] for reading in record["persisted"]):
        yield "an owner or a lease was persisted, so this is not the store of the experiment"


def _too_early(record: dict[str, Any]) -> Iterator[str]:
    expiry, begun = _expiry(record), _begun(record, "B")
    claimed = record["attempts"][1]["started"] if len(record["attempts"]) > 1 else None
    if expiry is None or begun is None or claimed is None:
        yield "no takeover from the paused owner was seen"
    elif begun < expiry or claimed < expiry - _CLOCKS_AGREE:
        yield f"B claimed at {claimed:.1f} ms a lease that ended at {expiry:.1f} ms"


def _unrefused(record: dict[str, Any], case: Case) -> Iterator[str]:
    """What the paused owner brought back must have been kept apart, wherever B had an outcome before it."""
    sent_again = case.form in (Form.RESEND, Form.KEYED)
    if sent_again and "attempt 1 reported late" not in (record["journal"]["evidence"] or ""):
        yield f"A's late effect record is not kept as evidence: {record['journal']['evidence']!r}"
    if case.form is Form.HOLD and "attempt 1" not in (record["journal"]["resolved_by"] or ""):
        yield f"A's late outcome did not settle the effect: {record['journal']}"


def _takeover(record: dict[str, Any]) -> float | None:
    begun = _begun(record, "B")
    return None if begun is None or record["interrupted"] is None else begun - record["interrupted"]


def _after_expiry(record: dict[str, Any], case: Case) -> float | None:
    expiry, begun = _expiry(record), _begun(record, "B")
    paused = case.act is Act.PAUSE and not case.forgetful
    return begun - expiry if paused and expiry is not None and begun is not None else None


def _expiry(record: dict[str, Any]) -> float | None:
    """When A's lease was to end, as it stood in the store while A was stopped."""
    readings = [r["lease_expires"] for r in record["persisted"] if r["when"] == "paused"]
    return readings[0] if readings else None


def _begun(record: dict[str, Any], who: str) -> float | None:
    return next((e["at"] for e in record["events"] if e["who"] == who and e["event"] == "begun"), None)


def as_json(judgement: Judgement) -> dict[str, Any]:
    return asdict(judgement)
