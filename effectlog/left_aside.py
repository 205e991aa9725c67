"""Tells of what a successful body left aside: effects that it did not wait for, and recorded ones it did not call.

Only tells. A body may let a race be won, and go on by whatever its code says now; but nobody should have to guess.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from effectlog.user_warnings import warn

if TYPE_CHECKING:
    from effectlog.attempt.attempt import Attempt


def report_left_behind(attempt: Attempt) -> None:
    """Warn of effects that the body called and did not wait for, and that were too late to be sent."""
    if attempt.cut_off:
        warn(
            f"task {attempt.task.name} (run {attempt.run_id}, attempt {attempt.fence.attempt}) was over before effect "
            f"{', '.join(sorted(attempt.cut_off))} could begin, so nothing was sent; wait for the task or thread that "
            f"calls it, or cancel it",
            **attempt.extra,
        )


def report_unclaimed(attempt: Attempt) -> None:
    """Warn of effects that an earlier attempt recorded and this one did not call: its code may have changed."""
    left = [effect for key, effect in attempt.journal.items() if key not in attempt.called]
    if not left:
        return
    new = [effect for effect in attempt.journal.values() if effect.attempt == attempt.fence.attempt]
    parts = []
    for effect in left:
        part = f"{effect.key!r} ({effect.name})"
        for other in new:
            # Other arguments are another operation, and no sign of a changed template.
            if (other.name, other.fingerprints) == (effect.name, effect.fingerprints):
                part += (
                    f", while the same effect was requested as {other.key!r}: a changed key template makes a "
                    f"second operation"
                )
                break
        parts.append(part)
    warn(
        f"run {attempt.run_id}, attempt {attempt.fence.attempt} of task {attempt.task.name} did not call effects "
        f"that an earlier attempt recorded: {'; '.join(parts)}",
        **attempt.extra,
    )
