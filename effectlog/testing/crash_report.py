"""What a crash matrix found, as counts, problems and a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from effectlog.model import EffectState, Policy, RunState

if TYPE_CHECKING:
    from collections.abc import Callable

    from effectlog.decorators.spec import EffectSpec
    from effectlog.model import RunRecord
    from effectlog.testing.crash_calls import Calls


@dataclass(frozen=True, slots=True)
class EffectCount:
    """One effect after a crash and the takeover; ``accepted`` counts what the destination will have done."""

    requests: int
    accepted: int


@dataclass(frozen=True, slots=True)
class CrashResult:
    """One round: where it went wrong on purpose, and what came out."""

    fault: str
    state: RunState
    attempts: int
    effects: dict[str, EffectCount]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CrashReport:
    """All rounds of one matrix. ``assert report.ok, report`` shows the table where something is wrong."""

    task: str
    results: tuple[CrashResult, ...] = field(default=())

    @property
    def problems(self) -> list[str]:
        """Every problem, once, with the rounds in which it showed."""
        rounds: dict[str, list[str]] = {}
        for result in self.results:
            for problem in result.problems:
                rounds.setdefault(problem, []).append(result.fault)
        return [f"{problem} [{'; '.join(where)}]" for problem, where in rounds.items()]

    @property
    def ok(self) -> bool:
        """Nothing went wrong anywhere."""
        return not self.problems

    def raise_if_unsafe(self) -> None:
        """Raise AssertionError with the table if any round had a problem."""
        if not self.ok:
            raise AssertionError(f"\n{self}")

    def __str__(self) -> str:
        rows = [("fault", "state", "attempts", "requests/accepted effects")]
        for result in self.results:
            effects = ", ".join(f"{k} {n.requests}/{n.accepted}" for k, n in result.effects.items())
            mark = " !" if result.problems else ""
            rows.append((result.fault + mark, str(result.state), str(result.attempts), effects))
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = [
            "  ".join(
                [*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)), row[3]]
            ).rstrip()
            for row in rows
        ]
        found = [f"problem: {problem}" for problem in self.problems]
        return "\n".join([f"crash matrix of {self.task}", *lines, *found])


def judge(
    fault: str,
    record: RunRecord,
    calls: Calls,
    specs: Callable[[str], EffectSpec | None],
    expected: dict[str, str],
) -> CrashResult:
    """Judge one round. ``expected``: effect key → effect name of the round in which nothing went wrong."""
    counts = {
        effect.key: EffectCount(
            calls.requests[effect.key],
            _accepted(calls.accepted[effect.key], specs(effect.name), effect.key in calls.keyed),
        )
        for effect in record.effects
    }
    problems = [*_changed_keys(record, expected), *_beside(calls), *_unencodable(record)]
    for effect in record.effects:
        problems += _sent_twice(effect.key, counts[effect.key], specs(effect.name))
    if record.state is RunState.PENDING:
        problems.append(
            f"the run waits until {record.due_at:%H:%M:%S} UTC, so what comes after was not tried: give the "
            "task a shorter delay in tests"
        )
    elif record.state not in (RunState.SUCCEEDED, RunState.HELD):
        problems.append(f"the run ended {record.state}: {record.error.message if record.error else ''}")
    return CrashResult(fault, record.state, len(record.attempts), counts, tuple(problems))


def _accepted(returned: int, spec: EffectSpec | None, keyed: bool) -> int:
    destination = spec.destination if spec else None
    deduplicates = destination.deduplicates if destination else keyed
    return min(returned, 1) if deduplicates else returned


def _sent_twice(key: str, count: EffectCount, spec: EffectSpec | None) -> list[str]:
    if spec is None or count.accepted <= 1:
        if (
            spec is not None
            and spec.policy is not Policy.RESEND
            and count.requests > 1
            and spec.look_up is None
        ):
            return [f"effect {key!r} declares in_doubt='hold' and was requested {count.requests} times"]
        return []
    if spec.declared_doubt and spec.policy is Policy.RESEND:
        return []  # Its author says that a duplicate is acceptable.
    advice = (
        "send operation_id() as the destination's key, name a destination= that deduplicates, "
        "or declare in_doubt="
    )
    return [f"effect {key!r} would happen {count.accepted} times: {advice}"]


def _changed_keys(record: RunRecord, expected: dict[str, str]) -> list[str]:
    found = {effect.key: effect.name for effect in record.effects}
    new = {key: name for key, name in found.items() if key not in expected}
    problems = []
    for key, name in new.items():
        if name in expected.values():
            problems.append(
                f"effect {name} has another key in another attempt or run ({key!r}): a key must not depend "
                "on time, chance or the attempt"
            )
        else:
            problems.append(f"the body took another branch after the crash: effect {name} is new")
    if record.state is RunState.SUCCEEDED:
        problems += [
            f"the body took another branch after the crash: effect {name} is missing"
            for key, name in expected.items()
            if key not in found and name not in {found[k] for k in new}
        ]
    # Names, not keys: a key that carries the time differs in every round, and the problem is one.
    return [_without_key(problem) for problem in problems]


def _without_key(problem: str) -> str:
    head, _, tail = problem.partition(" (")
    return head + ":" + tail.partition("):")[2] if tail.partition("):")[2] else problem


def _beside(calls: Calls) -> list[str]:
    return [
        f"the body sent something outside any effect ({what}), so it is sent again in every attempt"
        for what in sorted(calls.outside)
    ]


def _unencodable(record: RunRecord) -> list[str]:
    return [
        f"the result of effect {effect.key!r} can't be stored: {effect.evidence}"
        for effect in record.effects
        if effect.state is EffectState.COMPLETED
        and effect.evidence
        and "could not be stored" in effect.evidence
    ]
