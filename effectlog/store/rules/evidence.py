"""When an effect counts as being executed, and how a late outcome settles one that is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effectlog.model import EffectState, RunState

if TYPE_CHECKING:
    from effectlog.store.rows import EffectRow, RunRow, UnsettledEffect
    from effectlog.store.rules.working_set import WorkingSet


def executing_now(run: RunRow, effect: EffectRow | UnsettledEffect) -> bool:
    """The attempt that owns the run has a request of this effect under way."""
    return run.state is RunState.RUNNING and run.attempt in effect.executing


def returned(executing: tuple[int, ...], attempt: int) -> tuple[int, ...]:
    """The attempts that still execute a request once this one's has returned."""
    return () if executing == (attempt,) else tuple(number for number in executing if number != attempt)


def succeed(
    working_set: WorkingSet, effect: EffectRow, result: bytes | None, result_error: str | None
) -> None:
    """Make an effect completed; the caller marks the row as changed."""
    effect.state = EffectState.COMPLETED
    effect.result = result
    effect.result_error = result_error
    effect.finished_at = working_set.now
    effect.error = None
    effect.open_requests = 0


def settle_by_late_outcome(working_set: WorkingSet, effect: EffectRow) -> None:
    """Settle an effect by the value that a fenced-out attempt reported, so that nobody sends it again."""
    if effect.late_attempt is None or effect.settled_for_good:
        return
    problem = None if effect.late_result is not None else "the late outcome could not be encoded"
    credit(effect, late_outcome_of(effect.late_attempt))
    succeed(working_set, effect, effect.late_result, problem)


def keep_late_value(effect: EffectRow, *, unless: bytes | None) -> None:
    """Keep an earlier late value in words before another takes its place: it tells of an effect that happened."""
    if effect.late_attempt is None or effect.late_result == unless:
        return
    value = (effect.late_result or b"").decode(errors="replace")
    add_evidence(effect, f"{late_outcome_of(effect.late_attempt)}: {shortened(value)}")


def shortened(text: str) -> str:
    """One line of at most ``_LONGEST_VALUE`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_VALUE else f"{line[:_LONGEST_VALUE]}…"


_LATE = "late outcome of attempt"
_LONGEST_VALUE = 200


def late_outcome_of(attempt: int) -> str:
    """Names the source of an outcome that came after its attempt had lost the run."""
    return f"{_LATE} {attempt}"


def is_late_outcome(source: str) -> bool:
    """Whether the effect's own function returned the outcome, and nobody decided it."""
    return source.startswith(_LATE)


def credit(effect: EffectRow, by: str | None) -> None:
    """Name who settles the effect now, if not its own request.

    Whoever had settled it before stays visible.
    """
    if effect.resolved_by is not None and effect.state is not EffectState.COMPLETED:
        add_evidence(effect, f"settled as not applied by {effect.resolved_by} before")
    effect.resolved_by = by


def add_evidence(effect: EffectRow, text: str | None) -> None:
    """Keep a line for people to read; a line told again is kept once."""
    lines = (effect.evidence or "").splitlines()
    if text and text not in lines:
        effect.evidence = "\n".join([*lines, text])
