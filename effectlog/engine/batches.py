"""Batches of entries and the store: applied together, apart where one is to blame, again where that can help.

It holds no queue and never waits: what has to be tried again goes back to the engine. The invariant: within
one chain, nothing is applied before or without what was handed in earlier.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakSet

from effectlog import telemetry
from effectlog.engine.queue import Answer, Submission, deliver, fail
from effectlog.errors import StoreClosed, StoreError, StoreTrouble
from effectlog.store.rules.working_set import needs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from effectlog.store.commands import Command, Outcome
    from effectlog.store.protocol import Apply, Store

logger = logging.getLogger("effectlog")


class Failure(NamedTuple):
    """Entries that could not be committed, and why."""

    entries: list[Submission]
    error: StoreError


class Batches:
    """Applies batches, on the engine's loop or on the store's own thread, but never on both at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.commits = 0
        self.errors: WeakSet[StoreError] = WeakSet()
        """The errors that callers got as this store's own."""

    async def apply(self, batch: list[Submission]) -> list[Submission]:
        """Commit a batch. Returns what of it has to be tried again after a pause."""
        batch = self._to_do(batch)
        if not batch:
            return []
        began = time.monotonic()
        try:
            outcomes = await self._store.apply(_commands(batch))
        except Exception as error:
            return await self.after(self._failure(batch, error))
        failure = self._succeed(batch, outcomes, began)
        return await self.after(failure) if failure else []

    def apply_here(self, batch: list[Submission], apply: Apply) -> Failure | None:
        """Commit a batch on this thread. Returns what could not be committed, for ``after`` to deal with."""
        batch = self._to_do(batch)
        if not batch:
            return None
        began = time.monotonic()
        try:
            outcomes = apply(_commands(batch))
        except Exception as error:
            return self._failure(batch, error)
        return self._succeed(batch, outcomes, began)

    def _succeed(self, batch: list[Submission], outcomes: list[Outcome], began: float) -> Failure | None:
        self.commits += 1
        busy = self._hand_out(batch, outcomes)
        telemetry.committed(self._store.name, len(outcomes), time.monotonic() - began)
        return Failure(busy, _kept_locked(busy)) if busy else None

    def _failure(self, batch: list[Submission], error: Exception) -> Failure:
        if isinstance(error, StoreError):
            return Failure(batch, error)
        logger.error("effectlog: a batch could not be applied", exc_info=error)
        defect = StoreError(f"{self._store.name}: {type(error).__qualname__}: {error}", transient=False)
        defect.__cause__ = error
        return Failure(batch, defect)

    @staticmethod
    def _to_do(batch: list[Submission]) -> list[Submission]:
        """What nobody has answered meanwhile, and no broken chain forbids."""
        broken = [entry for entry in batch if entry.chain is not None and entry.chain.broken is not None]
        for entry in broken:
            assert entry.chain is not None  # noqa: S101 - see above
            deliver([(entry, None, entry.chain.broken)])
        return [entry for entry in batch if not entry.answered]

    @staticmethod
    def _hand_out(batch: list[Submission], outcomes: list[Outcome]) -> list[Submission]:
        """Hand outcomes back. Returns the entries that others' transactions still keep waiting."""
        answers: list[Answer] = []
        busy: list[Submission] = []
        at = 0
        for entry in batch:
            end = at + len(entry.left)
            whole = entry.take(outcomes[at:end])
            at = end
            if whole is None:
                busy.append(entry)
            else:
                answers.append((entry, whole, None))
        deliver(answers)
        return busy

    async def after(self, failure: Failure) -> list[Submission]:
        """Deal with a failure. Returns what has to be tried again after a pause."""
        batch, error = failure
        if len(batch) > 1 and not error.transient:
            return await self._apply_apart(batch)
        now = time.monotonic()
        # Neither comes back.
        for_good = isinstance(error, StoreClosed) or error.reason is StoreTrouble.STORE_GONE
        locked = error.reason is StoreTrouble.RUN_LOCKED
        again = [
            entry
            for entry in batch
            if not for_good and (error.transient or entry.insist) and not entry.is_over(now, locked=locked)
        ]
        self.give_up([entry for entry in batch if entry not in again], error)
        return again

    def give_up(self, entries: Sequence[Submission], error: StoreError) -> None:
        """Answer with an error; what comes after an outcome that is not recorded isn't recorded either."""
        for entry in entries:
            # An attempt's end that is given up breaks nothing: the outcomes it waits for may still be
            # recorded.
            if entry.linger and entry.chain is not None:
                entry.chain.broken = error
        fail(entries, error)

    async def _apply_apart(self, batch: list[Submission]) -> list[Submission]:
        """One entry may be to blame: the others must not fail with it, unless they follow it in its chain."""
        again: list[Submission] = []
        for entry in batch:
            waits = entry.chain is not None and any(entry.chain is other.chain for other in again)
            again += [entry] if waits else await self.apply([entry])
        return again


def _commands(batch: Sequence[Submission]) -> list[Command]:
    return [command for entry in batch for command in entry.left]


def _kept_locked(entries: Sequence[Submission]) -> StoreError:
    runs = ", ".join(sorted(needs(_commands(entries)).runs))
    return StoreError(
        f"run {runs} is kept locked by somebody else's open transaction; end the session if it is idle in a "
        f"transaction, and never one that waits for a standby (wait_event 'SyncRep')",
        transient=True,
        reason=StoreTrouble.RUN_LOCKED,
    )
