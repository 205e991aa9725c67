"""The log line of an attempt that did not succeed, once its end is recorded.

One line an attempt: a warning if it is tried again or held, an error if its run is a dead letter.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from effectlog.model import AttemptOutcome, RunState

if TYPE_CHECKING:
    from effectlog.attempt.attempt import Attempt
    from effectlog.store import commands as c

logger = logging.getLogger("effectlog")

_TRIED_AGAIN = (AttemptOutcome.ERROR, AttemptOutcome.TIMED_OUT)


def report_end(
    attempt: Attempt, command: c.EndAttempt, moved: c.RunMoved, error: BaseException | None
) -> None:
    """Log the recorded end; ``error``, with its traceback, is what left the body, if anything did."""
    why = "" if command.error is None else f": {command.error.type}: {command.error.message}"
    who = f"attempt {attempt.fence.attempt} of run {attempt.run_id} ({attempt.task.name})"
    if moved.state is RunState.HELD:
        logger.warning(
            "effectlog: %s ended in doubt, and the run is held for a decision, see 'effectlog show %s'%s",
            who,
            attempt.run_id,
            why,
            extra=attempt.extra,
        )
    elif moved.state is RunState.FAILED:
        logger.error(
            "effectlog: %s failed, and the run is a dead letter; 'effectlog retry %s' gives it another round%s",
            who,
            attempt.run_id,
            why,
            exc_info=error,
            extra=attempt.extra,
        )
    elif moved.state is RunState.PENDING and command.outcome in _TRIED_AGAIN:
        logger.warning(
            "effectlog: %s failed and is tried again in %.1f s%s",
            who,
            command.delay,
            why,
            exc_info=error,
            extra=attempt.extra,
        )
