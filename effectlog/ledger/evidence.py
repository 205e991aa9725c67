"""When an effect counts as being executed, and how a late outcome settles one that is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effectlog.model import EffectState, RunState

if TYPE_CHECKING:
    from effectlog.ledger.pages import Pages
    from effectlog.rows import EffectRow, RunRow


def executing_now(run: RunRow, effect: EffectRow) -> bool:
    """The attempt that owns the run has a request of this effect under way."""
    return run.state is RunState.RUNNING and run.attempt in effect.executing


def succeed(pages: Pages, effect: EffectRow, result: bytes | None, result_error: str | None) -> None:
    """Make an effect completed; the caller marks the row as changed."""
    effect.state = EffectState.COMPLETED
    effect.result = result
    effect.result_error = result_error
    effect.finished_at = pages.now
    effect.error = None
    effect.open_requests = 0


def settle_by_late_outcome(pages: Pages, effect: EffectRow) -> None:
    """Settle an effect in doubt by the outcome that a fenced-out attempt reported."""
    if not effect.unsettled or effect.late_attempt is None:
        return
    problem = None if effect.late_result is not None else "the late outcome could not be encoded"
    effect.resolved_by = f"late outcome of attempt {effect.late_attempt}"
    succeed(pages, effect, effect.late_result, problem)
