"""Says so where retries may go on for longer than a destination remembers a key.

Past its send horizon an effect in doubt is held instead of sent again, which nobody expects of a task
that merely retries. It only tells; the horizon itself is kept by ``effectlog.effects.doubt``.
"""

from __future__ import annotations

import warnings
from datetime import timedelta
from typing import TYPE_CHECKING

from effectlog.errors import EffectLogWarning
from effectlog.model import Policy
from effectlog.user_warnings import users_level, warn

if TYPE_CHECKING:
    from effectlog.decorators.spec import EffectSpec, TaskSpec
    from effectlog.retry import Retry

_checked: set[tuple[str, str]] = set()


def check_effect(effect: EffectSpec) -> None:
    """At decoration: the effect's own ``retry=``."""
    message = _problem(effect, effect.retry, f"effect {effect.name}")
    if message is not None:
        warnings.warn(message, EffectLogWarning, stacklevel=users_level())


def check_task(task: TaskSpec, effect: EffectSpec) -> None:
    """At the first call of an effect under a task, once for each pair."""
    pair = (task.name, effect.name)
    if pair in _checked:
        return
    _checked.add(pair)
    message = _problem(effect, task.retry, f"task {task.name}")
    if message is not None:
        warn(message, task=task.name, effect=effect.name)


def _problem(effect: EffectSpec, retry: Retry | None, who: str) -> str | None:
    destination = effect.destination
    horizon = destination.send_horizon() if destination else None
    if destination is None or horizon is None or retry is None or effect.policy is not Policy.RESEND:
        return None
    longest = retry.longest_wait()
    if longest <= horizon.total_seconds():
        return None
    return (
        f"{who} may retry for {timedelta(seconds=round(longest))}, and {destination.name} is sent the key of "
        f"a first request for {horizon} only (retention less margin): effect {effect.name}, if it is in "
        "doubt then, will be held. Retry sooner or less often, or give the effect a look-up (in_doubt=)"
    )
