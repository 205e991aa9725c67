"""What is handed in to the engine: commands in order, and the way their outcome goes back.

Knows neither store nor loop of the engine. The invariant: each entry is answered once.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from msgspec import Struct, field

from effectlog.store import commands as c

if TYPE_CHECKING:
    import asyncio
    import concurrent.futures
    from collections.abc import Callable, Sequence

    from effectlog.store.commands import Chain, Command, Outcome


PATIENCE = 2.0
"""Seconds for which anything is tried again while somebody else's transaction keeps its run."""

LATE = 10.0
"""Seconds for which an outcome is tried past its time: as evidence, it may be all that settles the effect."""


class Submission(Struct, eq=False, gc=False):
    """Commands handed in together, and how their outcome goes back."""

    commands: Sequence[Command]
    chain: Chain | None = None
    resolve: Callable[[list[Outcome] | None, BaseException | None], None] | None = None
    waiter: asyncio.Future[list[Outcome]] | None = None
    until: float = 0.0
    """Monotonic time up to which a store that is unavailable for a moment is tried again."""
    insist: bool = False
    """Try again after any store error: what happened outside must be recorded."""
    linger: bool = False
    """An outcome, which nobody waits for."""
    late: bool = False
    """Its time was over before, and is now counted from when that was noticed."""
    since: float = field(default_factory=time.monotonic)
    answered: bool = False
    _known: dict[int, Outcome] | None = None
    """The outcomes of a part, by place, where the rest has to be tried again."""

    @property
    def left(self) -> Sequence[Command]:
        """The commands that still have to be applied."""
        known = self._known
        return self.commands if not known else [x for i, x in enumerate(self.commands) if i not in known]

    @property
    def patient_until(self) -> float:
        """As ``until``, where the run is merely kept by somebody else's transaction."""
        return max(self.until, self.since + PATIENCE)

    def is_over(self, now: float, *, locked: bool = False) -> bool:
        """Whether it is not worth another try.

        An outcome gets ``LATE`` more once: the process may have stood still.
        """
        over = now >= (self.patient_until if locked else self.until)
        if over and self.linger and not self.late:
            self.late = True
            self.until = now + LATE
            return False
        return over

    def take(self, outcomes: list[Outcome]) -> list[Outcome] | None:
        """All commands' outcomes, once ``outcomes`` are those of the rest; None while some are busy."""
        if not self._known and not any(map(is_busy, outcomes)):
            return outcomes
        known = self._known = self._known or {}
        places = [i for i in range(len(self.commands)) if i not in known]
        known.update(
            (i, outcome) for i, outcome in zip(places, outcomes, strict=True) if not is_busy(outcome)
        )
        return None if len(known) < len(self.commands) else [known[i] for i in range(len(self.commands))]


def is_busy(outcome: Outcome) -> bool:
    """Nothing was done, because somebody else's transaction was in the way."""
    return isinstance(outcome, c.Refused) and outcome.reason is c.Refusal.BUSY


# A store that was slow may answer at the moment at which its caller learns that it does not.
_answering = threading.Lock()

Answer = tuple[Submission, "list[Outcome] | None", "BaseException | None"]


def deliver(answers: Sequence[Answer]) -> None:
    """Hand outcomes or errors back, with one wake-up for each loop that waits."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Answer]] = {}
    defect: BaseException | None = None
    for answer in _unanswered(answers):
        entry, outcomes, error = answer
        if entry.waiter is not None:
            by_loop.setdefault(entry.waiter.get_loop(), []).append(answer)
        elif entry.resolve is not None:
            try:
                entry.resolve(outcomes, error)
            except BaseException as ours:  # The others wait for their answer all the same.
                defect = ours
    for loop, waiting in by_loop.items():
        # A loop that was closed while its callers waited has nobody left to answer.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, waiting)
    if defect is not None:
        raise defect


def _unanswered(answers: Sequence[Answer]) -> list[Answer]:
    with _answering:
        mine = [answer for answer in answers if not answer[0].answered]
        for entry, _, _ in mine:
            entry.answered = True
    return mine


def fail(entries: Sequence[Submission], error: BaseException) -> None:
    """Answer entries with an error."""
    deliver([(entry, None, error) for entry in entries])


def _settle(answers: Sequence[Answer]) -> None:
    for entry, outcomes, error in answers:
        waiter = entry.waiter
        if waiter is None or waiter.done():
            continue
        if error is not None:
            waiter.set_exception(error)
        else:
            waiter.set_result(outcomes or [])


def into(
    done: concurrent.futures.Future[list[Outcome]],
) -> Callable[[list[Outcome] | None, BaseException | None], None]:
    """A ``resolve`` that settles a thread's future."""

    def resolve(outcomes: list[Outcome] | None, error: BaseException | None) -> None:
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(outcomes or [])

    return resolve


LINGER = 0.0005
"""Seconds that a batch of nothing but completed records waits for the run's next record."""
BATCH_LIMIT = 512
"""Commands in one transaction at most, so that a heartbeat never waits long."""
STUCK = 0.25
"""Seconds without an answer of the store after which the deadlines of those who wait are looked at."""


class SubmissionQueue:
    """The entries of one opening of a store."""

    def __init__(self) -> None:
        # Between a look at ``closing`` and what follows from it nothing may close: it would never be
        # answered.
        self.lock = threading.RLock()
        self.more = threading.Condition(self.lock)
        """Told of each entry, and of the close, while somebody lingers on another thread."""
        self.closing = False
        """Nothing is taken in any more."""
        self._waiting: deque[Submission] = deque()
        self._with_store: Sequence[Submission] = ()
        self._taken_at = 0.0

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._waiting)

    @property
    def idle(self) -> bool:
        """Nothing waits, and the store has nothing."""
        return not self._waiting and not self._with_store

    def add(self, entry: Submission) -> None:
        """Take in an entry; to be called with the lock held."""
        self._waiting.append(entry)

    def linger(self) -> float:
        """Seconds that what waits may still wait for a record to share its commit; 0 if it may not."""
        with self.lock:  # Others hand in while we look.
            if self.closing or not self._waiting or not all(entry.linger for entry in self._waiting):
                return 0.0
            return max(0.0, self._waiting[0].since + LINGER - time.monotonic())

    def take(self) -> list[Submission]:
        """The next batch, which the store is about to get."""
        batch: list[Submission] = []
        size = 0
        with self.lock:
            waiting = self._waiting
            while waiting and (not batch or size + len(waiting[0].commands) <= BATCH_LIMIT):
                entry = waiting.popleft()
                size += len(entry.commands)
                batch.append(entry)
            self._with_store, self._taken_at = batch, time.monotonic()
        return batch

    def returned(self, again: Sequence[Submission] = ()) -> None:
        """Take note that the batch is through; ``again`` has to be tried once more, before all others."""
        with self.lock:
            self._with_store = ()
            self._waiting.extendleft(reversed(again))

    def take_late(self) -> list[Submission]:
        """Those whose time is over, where the store has not answered for a while.

        What it has, it may still do.
        """
        now = time.monotonic()
        with self.lock:
            if not self._with_store or now - self._taken_at < STUCK:
                return []
            waiting = (entry for entry in (*self._with_store, *self._waiting) if not entry.answered)
            late = [entry for entry in waiting if entry.until and entry.is_over(now)]
            for entry in late:
                with contextlib.suppress(ValueError):  # It is with the store.
                    self._waiting.remove(entry)
            return late

    def close(self) -> None:
        """Take in nothing more; what is here is still committed."""
        with self.lock:
            self.closing = True
            self.more.notify_all()

    def empty(self) -> list[Submission]:
        """Give up everything that is here."""
        with self.lock:
            rest = [*self._with_store, *self._waiting]
            self._with_store = ()
            self._waiting.clear()
            return rest
