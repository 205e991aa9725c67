"""Tells of recorded effects that a successful attempt did not call: a sign that the code has changed under its run.

Only tells. Effects are matched by key, so what was completed and is not called is simply left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from effectlog.notice import warn

if TYPE_CHECKING:
    from effectlog.attempt import Attempt


def report_unclaimed(attempt: Attempt) -> None:
    """Warn once for an attempt whose body is over."""
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
