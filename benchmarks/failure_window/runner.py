"""Plays one case: starts A and B, lets A reach its boundary, interrupts it there, and writes down what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from benchmarks.failure_window.rig import PATIENCE, Player, Stage
from benchmarks.failure_window.scenarios import Act, Case, Counts, Point
from benchmarks.failure_window.worker import Settings, StoreAt, receipt, receipt_blocking
from effectlog import Applied, EffectLog, EffectState, NotApplied, RunHeld
from effectlog.clock import SystemClock
from effectlog.errors import StoreRefused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from effectlog import Run
    from effectlog.testing.destinations import CountingDestination


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of the lease, and of the tool's wait after the destination has answered."""

    lease: float
    wait: float


ARTICLE = Times(lease=4.0, wait=2.5)
QUICK = Times(lease=1.5, wait=0.4)


class ScenarioError(Exception):
    """A run that could not be played to its end, which is a result as well."""


async def play(
    case: Case,
    repetition: int,
    store: StoreAt,
    destination: CountingDestination,
    times: Times,
    quiet: asyncio.Lock,
) -> dict[str, Any]:
    """One run of one case, as its record.

    ``quiet`` is held until all that remains is waiting, so that runs played side by side don't disturb
    each other's times.
    """
    refused = await _refusal(store) if case.forgetful else None
    async with contextlib.AsyncExitStack() as running:
        async with quiet:
            log = EffectLog(store.store(), lease=times.lease, check_store=not case.forgetful)
            await running.enter_async_context(log)
            stage = Stage()
            a, b = [
                await running.enter_async_context(
                    stage.worker(Settings(name, store, destination.url, times.lease, times.wait, holds))
                )
                for name, holds in (("A", _holds(case)), ("B", frozenset[Point]()))
            ]
            play = _Play(case, f"{case.id}-{repetition}", log, stage, destination, store.file, a, b)
            with play.told_on_failure():
                await play.interrupt()
        with play.told_on_failure():
            await play.come_through()
        record = await play.record()
    return record | {"repetition": repetition, "times": asdict(times), "refused_at_open": refused}


def _holds(case: Case) -> frozenset[Point]:
    """A waits at its boundary, so that the interruption can't miss it; and before, until B is there."""
    if case.act is Act.NOTHING:
        return frozenset()
    return frozenset({case.point} if _b_comes_later(case) else {case.point, Point.BEGUN})


def _b_comes_later(case: Case) -> bool:
    return case.act is Act.JOIN or case.forgetful


async def _refusal(store: StoreAt) -> dict[str, str]:
    """What opening the store says with the check left on."""
    try:
        async with EffectLog(store.store()):
            return {}
    except StoreRefused as error:
        return {"guarantee": getattr(error, "guarantee", ""), "message": str(error)}


class _Play:
    """One run of one case, while it is played."""

    def __init__(
        self,
        case: Case,
        name: str,
        log: EffectLog,
        stage: Stage,
        destination: CountingDestination,
        file: Path | None,
        a: Player,
        b: Player,
    ) -> None:
        self.case = case
        self.name = name
        self.log = log
        self.stage = stage
        self.destination = destination
        self.file = file
        self.a = a
        self.b = b
        self.run: Run[Any]
        self.order = f"{name}-{time.monotonic_ns()}"
        self.interrupted: float | None = None
        self.persisted: list[dict[str, Any]] = []
        self.held: dict[str, Any] | None = None
        self.result: Any = None
        self._began = time.monotonic()
        self._wall = time.time() - time.monotonic()

    @contextlib.contextmanager
    def told_on_failure(self) -> Iterator[None]:
        """What does not come is best understood from what did."""
        try:
            yield
        except Exception as error:
            told = ", ".join(f"{self._ms(e.at):.0f} {e.who} {e.name}" for e in self.stage.events)
            raise ScenarioError(f"{self.name} stopped at {error!r}; told until then: {told}") from error

    async def interrupt(self) -> None:
        """Everything up to the interruption, and a takeover that follows at once."""
        await self.a.serve()
        task = receipt_blocking if self.case.blocking else receipt
        self.run = await self.log.enqueue(task, self.order, self.case.form)
        await self.a.told(Point.BEGUN)
        if Point.BEGUN in _holds(self.case) and not _b_comes_later(self.case):
            await self.b.serve()
            if self.case.point is not Point.BEGUN:
                self.a.order("go")
        if self.case.point is not Point.BEGUN:
            await self._reached()
        await self._persisted("at the boundary")
        await self._interrupt()
        if self.case.act in (Act.KILL, Act.RELEASE):
            await self._taken_over()

    async def _reached(self) -> None:
        await self.a.told(self.case.point)
        if self.case.point is Point.RETURNED:
            await self._completed()

    async def _completed(self) -> None:
        """The effect has returned; the boundary is reached when its record is in the store."""
        async with asyncio.timeout(PATIENCE):
            while not any(e.state is EffectState.COMPLETED for e in (await self.run.record()).effects):
                await asyncio.sleep(0.001)

    async def _interrupt(self) -> None:
        match self.case.act:
            case Act.KILL:
                self.interrupted = self.a.signal(signal.SIGKILL).at
            case Act.PAUSE:
                self.interrupted = (await self.a.stop(between_writes_of=self.file)).at
                await self._persisted("paused")
            case Act.RELEASE:
                self.interrupted = self.a.release().at
            case Act.JOIN | Act.NOTHING:
                pass
        if _b_comes_later(self.case):
            self.interrupted = self.interrupted or time.monotonic()
            await self.b.serve()

    async def come_through(self) -> None:
        """Everything after it, until both workers have left."""
        if self.case.forgetful:
            await self.b.told(Point.ANSWERED)
        elif self.case.act is Act.PAUSE:
            await self._taken_over()
        if self.case.act is Act.JOIN:
            self.a.order("go")
        if self.case.held:
            await self._decide()
        else:
            self.result = await self.run.result(timeout=PATIENCE)
        if self.case.act is Act.PAUSE:
            await self._resume()
        await self.a.drain()
        await self.b.drain()
        await self._persisted("at the end")

    async def _taken_over(self) -> None:
        await self.b.told(Point.BEGUN)
        await self._persisted("taken over")

    async def _resume(self) -> None:
        """Wake A: what it brings back is late. If that settles the run, somebody goes on with it."""
        for _ in range(len(Point)):
            self.a.order("go")
        self.a.signal(signal.SIGCONT)
        await self.stage.told("waited", "A")
        if self.held is not None:
            self.result = await self._until_not_held()

    async def _until_not_held(self) -> Any:
        async with asyncio.timeout(PATIENCE):
            while True:
                with contextlib.suppress(RunHeld):
                    return await self.run.result()
                await asyncio.sleep(0.005)

    async def _decide(self) -> None:
        """The run is held; unless the paused owner will settle it itself, a person looks and decides."""
        try:
            self.result = await self.run.result(timeout=PATIENCE)
        except RunHeld:
            record = await self.run.record()
            self.stage.add("store", "held")
            self.held = {"state": record.state.value, **asdict(self._counts())}
        if self.held is None or self.case.act is Act.PAUSE:
            return
        effects = self.destination.effects_for(self.order)
        answer = Applied(f"effect-{effects[0].id}") if effects else NotApplied()
        (doubt,) = (await self.run.record()).effects
        await self.log.resolve(self.run.id, doubt.key, answer, by="the experiment's operator")
        self.stage.add("runner", "resolved", answer=type(answer).__name__)
        self.result = await self.run.result(timeout=PATIENCE)

    # --- what came of it -----------------------------------------------------------------------

    def _counts(self) -> Counts:
        destination, order = self.destination, self.order
        return Counts(len(destination.requests_for(order)), len(destination.effects_for(order)))

    async def _persisted(self, when: str) -> None:
        stored = await self.log.administration.stored(self.run.id)
        row, names = stored.row, {attempt.owner: attempt.worker for attempt in stored.attempts}
        expires = row.lease_expires - (0.0 if row.lease_clock == SystemClock().identity else self._wall)
        owner = None if row.owner is None else names.get(row.owner, "somebody unknown")
        reading = {"when": when, "at": self._ms(time.monotonic()), "state": row.state.value, "owner": owner}
        lease_expires = self._ms(expires) if row.lease_expires else None
        self.persisted.append(reading | {"attempt": row.attempt, "lease_expires": lease_expires})

    def _ms(self, at: float) -> float:
        """Milliseconds since this run's start, of a time on the shared clock."""
        return round((at - self._began) * 1000, 1)

    def _wall_ms(self, at: datetime | float) -> float:
        return self._ms((at.timestamp() if isinstance(at, datetime) else at) - self._wall)

    async def record(self) -> dict[str, Any]:
        """Everything that was seen, in milliseconds from the run's start."""
        record = await self.run.record()
        requests, effects = (
            self.destination.requests_for(self.order),
            self.destination.effects_for(self.order),
        )
        (journal,) = record.effects or (None,)
        return {
            "case": self.case.id,
            "row": self.case.row,
            "form": self.case.form.value,
            "interrupted": None if self.interrupted is None else self._ms(self.interrupted),
            "events": [
                {"at": self._ms(e.at), "who": e.who, "event": e.name, **e.facts}
                for e in sorted(self.stage.events, key=lambda e: e.at)
            ],
            "attempts": [
                {
                    "number": attempt.number,
                    "worker": attempt.worker,
                    "started": self._wall_ms(attempt.started_at),
                    "ended": None if attempt.ended_at is None else self._wall_ms(attempt.ended_at),
                    "outcome": attempt.outcome and attempt.outcome.value,
                }
                for attempt in record.attempts
            ],
            "requests": [
                {"at": self._wall_ms(r.at), "outcome": r.outcome, "keyed": r.key is not None}
                for r in requests
            ],
            "effects": [{"at": self._wall_ms(e.at), "id": e.id} for e in effects],
            "journal": journal
            and {
                "state": journal.state.value,
                "requests": journal.requests,
                "resolved_by": journal.resolved_by,
                "evidence": journal.evidence,
            },
            "persisted": self.persisted,
            "held": self.held,
            "state": record.state.value,
            "result": record.result,
            "result_as_returned": self.result,
        }
