"""``Run``: a handle on one stored run, wherever it is executed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from effectlog.context import here_attempt
from effectlog.errors import ConfigurationError, RunCancelled, RunFailed, RunHeld
from effectlog.model import RunRecord, RunState
from effectlog.runs.administration import Administration, not_found
from effectlog.validation import wait_limit

if TYPE_CHECKING:
    from effectlog.clock import Duration
    from effectlog.decorators.spec import Annotation
    from effectlog.store.rows import StoredSummary

R_co = TypeVar("R_co", covariant=True)


class Run(Generic[R_co]):
    """One durable call of a task. ``created`` is false where an idempotency key found an existing run."""

    __slots__ = ("_log", "_returns", "created", "id")

    def __init__(
        self, log: Administration, run_id: str, *, created: bool = False, returns: Annotation | None = None
    ) -> None:
        self._log = log
        self._returns = returns
        self.id = run_id
        self.created = created

    def __repr__(self) -> str:
        return f"Run({self.id!r}, created={self.created})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    async def result(self, timeout: Duration | None = None) -> R_co:
        """Wait until the run has ended and return its result.

        Raises RunFailed, RunCancelled or RunHeld for the other ends, TimeoutError after ``timeout``
        seconds (the run goes on), and ConfigurationError inside an attempt, where waiting for another run
        would hold a worker's place.
        """
        if here_attempt() is not None:
            raise ConfigurationError(
                "result() can't be awaited inside an attempt: the waiting run would keep its place in the "
                "worker and could block the one it waits for. Let the child's task go on from here, or "
                "subscribe it with on="
            )
        limit = wait_limit(timeout, "result(timeout")
        try:
            async with asyncio.timeout(limit):
                stored = await self._settled()
        except TimeoutError:
            raise TimeoutError(f"run {self.id} has not ended within {limit:g} s; it goes on") from None
        outcome: R_co = self._outcome(stored)
        return outcome

    async def _settled(self) -> StoredSummary:
        """Wait until the run has ended or is held; a ``retry`` may set it going again in between."""
        while True:
            stored = await self._log.watch.settled(self.id)
            if stored is None:
                raise not_found(self.id)
            if stored.row.state.ended or stored.row.state is RunState.HELD:
                return stored

    def _outcome(self, run: StoredSummary) -> Any:
        row = run.row
        if row.state is RunState.SUCCEEDED:
            returns = None if self._returns is None else self._returns.value
            return self._log.codec.decode(run.result or b"null", returns)
        if row.state is RunState.HELD:
            keys = [effect.key for effect in run.unsettled]
            raise RunHeld(
                f"run {self.id} is held: effect {', '.join(keys)} is in doubt and waits for a decision; see "
                f"'effectlog show {self.id}', then 'effectlog resolve {self.id} KEY --applied "
                "JSON|--not-applied --by YOU'",
                run_id=self.id,
                effect_keys=keys,
            )
        if row.state is RunState.CANCELLED:
            raise RunCancelled(f"run {self.id} was cancelled", run_id=self.id)
        error = row.error
        kind, message, traceback = (error.type, error.message, error.traceback) if error else ("", "", "")
        raise RunFailed(
            f"run {self.id} failed with {kind}: {message}; 'effectlog retry {self.id}' gives it another "
            "round of attempts",
            run_id=self.id,
            type_name=kind,
            message=message,
            traceback=traceback,
        )

    async def record(self) -> RunRecord:
        """Everything stored about the run. Raises RunNotFound if it was purged."""
        return await self._log.record(self.id)

    async def cancel(self, force: bool = False) -> RunState:
        """Cancel the run, and return the state it is in then.

        ``cancelled``: done. ``running``: its owner is asked to, learns it with its next effect or heartbeat
        at the latest, and ``result()`` shows which won; ``force`` fences the owner out and
        cancels at once. Any other state: the run had ended before. Raises RunNotFound.
        """
        return (await self._log.cancel(self.id, force=force)).state

    async def retry(self, force: bool = False) -> None:
        """Give a failed or cancelled run another round of attempts; completed effects stay replayed.

        Raises ActionRefused, with the reason, in any other state and while a live owner works on it;
        ``force`` fences that owner out first.
        """
        await self._log.retry(self.id, force=force)
