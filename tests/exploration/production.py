"""The production code as two tables that are filled on demand: what a command does to the rows, and what an owner does next.

All that the explorer knows of effectlog goes through this module. A store is the rows of one run as a tuple; a command
is applied to it by the rules, once for each pair. An owner is the production generator of an effect call, driven by
hand: its state is found by running it again from its history, and two histories that leave it alike are one state.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import astuple, replace

from effectlog import Applied, Destination, NotApplied, Retry, Unknown, durable_task, effect
from effectlog.attempt import attempt as attempt_module
from effectlog.attempt.attempt import Attempt, StopReason
from effectlog.codec import JsonCodec
from effectlog.decorators.registry import declared_effect
from effectlog.decorators.spec import EffectCall
from effectlog.decorators.task import spec_of
from effectlog.effects import call as call_module
from effectlog.effects import doubt as doubt_module
from effectlog.effects import journal as journal_module
from effectlog.effects import look_up as look_up_module
from effectlog.effects import request_errors as request_errors_module
from effectlog.effects.call import perform
from effectlog.effects.driver import AskDead, Commit
from effectlog.engine.runtime import Runtime
from effectlog.errors import StoreError
from effectlog.keys import Seals
from effectlog.model import AttemptOutcome, EffectState, ErrorInfo, Policy, RunState
from effectlog.store import commands as c
from effectlog.store.postgres.store import PostgresStore
from effectlog.store.rows import AttemptRow, EffectRow, NewRun, RequestClock, RunRow, StoredRun
from effectlog.store.rules import effects as effect_rules
from effectlog.store.rules import evidence as evidence_rules
from effectlog.store.rules import runs as run_rules
from effectlog.store.rules.execute import execute
from effectlog.store.rules.working_set import KeyRow, WorkingSet
from effectlog.store.sqlite.store import SqliteStore
from effectlog.testing.clock import MovableClock
from effectlog.worker import outcome as outcome_module
from effectlog.worker.outcome import BodyResult, crashed_too_often, end_of, is_control
from effectlog.worker.takeover import expire

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

Claim = c.Claim

RUN = "run"
KEY = "charge"
SETTLE = 1000.0
HORIZON = 1_000_000.0
CLOCK = "clock"
IDENTITY = ("task:task", "key")

_FINGERPRINTS = EffectRow.__struct_fields__.index("fingerprints")
_FIRST = EffectRow.__struct_fields__.index("first_request")
_RUN_RESULT = RunRow.__struct_fields__.index("result")


def frozen_effect(row: EffectRow) -> tuple[Any, ...]:
    fields = list(astuple(row))
    fields[_FINGERPRINTS] = None
    fields[_FIRST] = None if row.first_request is None else astuple(row.first_request)
    return tuple(fields)


def thawed_effect(fields: tuple[Any, ...]) -> EffectRow:
    row = EffectRow(*fields)
    row.fingerprints = {}
    row.first_request = None if fields[_FIRST] is None else RequestClock(*fields[_FIRST])
    return row


class Rows(NamedTuple):
    """What the store holds of the run; times are kept relative to now, so that only what matters tells two apart."""

    run: tuple[Any, ...] | None
    result: bytes | None
    attempts: tuple[tuple[int, str, AttemptOutcome | None], ...]
    effects: tuple[tuple[Any, ...], ...]
    children: tuple[tuple[str, str], ...] = ()

    def row(self) -> RunRow:
        assert self.run is not None
        return RunRow(*self.run)

    def effect(self, key: str = KEY) -> EffectRow | None:
        return next((thawed_effect(fields) for fields in self.effects if fields[1] == key), None)

    def whole(self) -> StoredRun:
        """As a claim hands it out."""
        attempts = [
            AttemptRow(RUN, number, owner, "", 0.0, None, outcome) for number, owner, outcome in self.attempts
        ]
        effects = [thawed_effect(fields) for fields in self.effects]
        return StoredRun(self.row(), b"[]", 0.0, attempts=attempts, effects=effects)


class Lapse(NamedTuple):
    """Time passes until the very moment at which the lease ends."""


class Due(NamedTuple):
    """Time passes until the run is due."""


class Purged(NamedTuple):
    """The run is removed, as ``purge`` does with what has ended and is in no doubt."""


class Table:
    """Gives things numbers."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.things: list[Any] = []

    def number(self, key: Any, thing: Any = None) -> int:
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.things)
            self.things.append(key if thing is None else thing)
        return found


def owner_name(process: int) -> str:
    return f"p{process}"


def plain(error: ErrorInfo | None) -> ErrorInfo | None:
    """An error without the texts that differ each time."""
    return None if error is None else ErrorInfo(error.type, "")


class Ledger:
    """The rules as a table: (rows, command) to (rows, outcome)."""

    def __init__(self) -> None:
        self.rows = Table()
        self.commands = Table()
        self.outcomes = Table()
        self.known: dict[tuple[int, int], tuple[int, int]] = {}
        row = RunRow(RUN, "task", RunState.PENDING, 0.0)
        self.start = self.rows.number(Rows(astuple(row), None, (), (), (IDENTITY,)))

    def command(self, command: Any) -> int:
        if isinstance(command, msgspec.Struct):
            if getattr(command, "error", None) is not None:
                command = replace(command, error=plain(command.error))
            if getattr(command, "on_dead", None) is not None:
                command = replace(command, on_dead=replace(command.on_dead, id="dead letter", args=b""))
        return self.commands.number((type(command).__name__, repr(command)), command)

    def apply(self, rows: int, command: int) -> tuple[int, int]:
        found = self.known.get((rows, command))
        if found is None:
            after, outcome = perform_on(self.rows.things[rows], self.commands.things[command])
            frozen = outcome_key(outcome)
            found = self.known[rows, command] = (self.rows.number(after), self.outcomes.number(frozen))
        return found


def pages_of(rows: Rows) -> WorkingSet:
    working_set = WorkingSet(now=0.0, lease_now=0.0, lease_clock=CLOCK)
    if rows.run is not None:
        working_set.runs[RUN] = rows.row()
    for fields in rows.effects:
        working_set.effects[RUN, fields[1]] = thawed_effect(fields)
    for identity in rows.children:
        working_set.keys[identity] = KeyRow((RUN if identity == IDENTITY else "child",), "{}")
    return working_set


def perform_on(rows: Rows, command: Any) -> tuple[Rows, Any]:
    """Apply one command to the rows, by the production rules."""
    match command:
        case Lapse():
            # Exactly the end of the lease, so that a comparison that is off by one is seen.
            assert rows.run is not None
            return rows._replace(run=astuple(replace(rows.row(), lease_expires=0.0))), None
        case Due():
            return rows._replace(run=astuple(replace(rows.row(), due_at=0.0))), None
        case Purged():
            children = tuple(identity for identity in rows.children if identity != IDENTITY)
            return Rows(None, None, (), (), children), None
    working_set = pages_of(rows)
    if isinstance(command, c.Claim):
        claimed = run_rules.claim(working_set, command, [RUN])
        outcome: Any = ("claimed", len(claimed))
    else:
        outcome = execute(working_set, command)
    return kept(rows, working_set), outcome


def kept(rows: Rows, working_set: WorkingSet) -> Rows:
    """The rows once what changed is written back, as both stores do it."""
    run, result = rows.run, rows.result
    attempts = list(rows.attempts)
    for begun in working_set.begun:
        attempts.append((begun.number, begun.owner, None))
    for ended in working_set.ended:
        attempts = [(n, o, ended.outcome if n == ended.number else was) for n, o, was in attempts]
    if RUN in working_set.changed_runs:
        changed = working_set.runs[RUN]
        result = changed.result if changed.result is not None else result
        changed = replace(changed, result=None, waits_since=None, due_at=1.0 if changed.due_at > 0 else 0.0)
        run = astuple(changed)
    effects = rows.effects
    if working_set.changed_effects:
        by_key = {fields[1]: fields for fields in effects}
        for identity in working_set.changed_effects:
            by_key[identity[1]] = frozen_effect(working_set.effects[identity])
        effects = tuple(by_key[key] for key in sorted(by_key))
    children = rows.children + tuple(identity for identity, _ in working_set.new_keys)
    return Rows(run, result, tuple(attempts), effects, children)


def outcome_key(outcome: Any) -> Any:
    match outcome:
        case c.EffectStored(row, late):
            return ("effect", frozen_effect(row), late)
        case c.Refused(reason, state, row):
            return ("refused", reason, state, None if row is None else frozen_effect(row))
        case c.RunMoved(state, changed):
            return ("moved", state, changed)
        case c.Renewed(lost, cancelling):
            return ("renewed", bool(lost), bool(cancelling))
        case c.Created(run_ids, created):
            return ("created", run_ids, created)
        case _:
            return outcome if isinstance(outcome, tuple) else (type(outcome).__name__,)


def outcome_of(key: Any) -> Any:
    """A fresh outcome, because an owner goes on changing the row that it is handed."""
    match key:
        case ("effect", row, late):
            return c.EffectStored(thawed_effect(row), late)
        case ("refused", reason, state, row):
            return c.Refused(reason, state, None if row is None else thawed_effect(row))
        case ("moved", state, changed):
            return c.RunMoved(state, changed)
        case _:
            return key


# --- owners ------------------------------------------------------------------------------------


class NotAppliedError(Exception):
    """The destination says that this request did nothing."""


class FinalError(Exception):
    """The destination says no for good."""


class UnknownError(Exception):
    """The answer did not arrive."""


ERRORS = {
    "not applied": NotAppliedError,
    "final": FinalError,
    "unknown": UnknownError,
    "interrupted": asyncio.CancelledError,
}


class FakeTime:
    """The time module of what owners run: it stands still but for what their history says."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 0.0


class FakeClock:
    identity = CLOCK
    past_horizon = False

    def wall(self) -> float:
        return HORIZON if self.past_horizon else 0.0

    def boot(self) -> float:
        return self.wall()

    def monotonic(self) -> float:
        return 0.0


TIME = FakeTime()
_LOGGER = logging.getLogger("effectlog")
_TIMED = (attempt_module, call_module, look_up_module, request_errors_module, outcome_module)


@contextlib.contextmanager
def standing_still() -> Iterator[None]:
    """While an owner is driven its time is ours, and what it would log a million times is not logged."""
    level = _LOGGER.level
    _LOGGER.setLevel(logging.CRITICAL)
    for module in _TIMED:
        module.time = TIME  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module in _TIMED:
            module.time = time  # type: ignore[attr-defined]
        _LOGGER.setLevel(level)


class FakeStore:
    name = "rows"

    def __init__(self, rows: Rows | None = None) -> None:
        self.clock = FakeClock()
        self.rows = rows

    async def get(self, run_id: str) -> StoredRun | None:
        del run_id
        return None if self.rows is None or self.rows.run is None else self.rows.whole()


class FakeEngine:
    """Where an attempt hands in its outcomes."""

    def __init__(self) -> None:
        self.store = FakeStore()
        self.posted: list[Any] = []
        self.resolves: list[Any] = []

    def post(self, command: Any, *, until: float, resolve: Any, chain: Any = None) -> None:
        del until, chain
        self.posted.append(command)
        self.resolves.append(resolve)

    def owns_error(self, error: Exception) -> bool:
        return isinstance(error, StoreError)


class Choice:
    """The user's code: does it swallow the error or let it out?"""


class Case(NamedTuple):
    """What the user declared."""

    policy: str
    keyed: bool = False
    """The destination has a contract and deduplicates by the operation id."""
    retention: bool = False
    """It forgets the keys after a while."""
    ignores: bool = False
    """There is a contract, and it says that keys are ignored."""
    is_async: bool = False
    swallows: bool = False
    """The body may go on after an error as if nothing had been."""
    tries: int = 1
    """Requests of one call, by the effect's own ``retry=``."""
    max_attempts: int = 3
    max_crashes: int = 3
    on_dead: bool = False
    new_key: bool = False
    """After a definite failure the contract asks for a new operation id."""


_numbers = count()


@durable_task
def after_death(run_id: str, error: str) -> None:
    del run_id, error


def declared(case: Case) -> tuple[Any, EffectCall]:
    """The task and the effect's call, made by the decorators that users use."""
    destination = None
    if case.keyed or case.ignores:
        more: dict[str, Any] = (
            {"retention": timedelta(seconds=2000)} if case.retention else {"retention": timedelta.max}
        )
        if case.new_key:
            more["failure_rule"] = "new_key"
        if case.ignores:
            more["on_repeat"] = "ignores"
        destination = Destination("bank", settle=timedelta(seconds=SETTLE), key_field=None, **more)

    def look(*_: Any) -> Any:
        return Unknown()

    def charge() -> str:
        return ""

    async def charge_async() -> str:
        return ""

    name = f"{KEY} {next(_numbers)}"  # A name means one function in a process.
    declaration = effect(
        key=KEY,
        name=name,
        destination=destination,
        in_doubt=look if case.policy == "look-up" else case.policy,
        not_applied=(NotAppliedError,),
        final=(FinalError,),
        retry=Retry(max_attempts=case.tries, delay=0, jitter=0) if case.tries > 1 else None,
        **({"lookup_budget": 4 * SETTLE} if case.policy == "look-up" else {}),
    )
    declared_function = declaration(charge_async if case.is_async else charge)
    found = declared_effect(name)
    assert found is not None
    spec = replace(found, name=KEY)
    retry = Retry(max_attempts=case.max_attempts, max_crashes=case.max_crashes, delay=0, jitter=0)
    options: dict[str, Any] = {"on_dead": after_death} if case.on_dead else {}
    task = spec_of(durable_task(name=f"task of {name}", timeout=10.0, retry=retry, **options)(task_body))
    return task, EffectCall(spec, KEY, {}, dict, declared_function, (), {})


def task_body() -> None:
    """Never called: the owner's body is driven by hand."""


class OwnerState(NamedTuple):
    """One state of an owner, with the shortest history found that leads to it."""

    snapshot: Any
    history: tuple[Any, ...]
    waits_for: str
    """What the generator has yielded: ``commit invoke sleep reread ask askdead choice``, or ``over``."""
    stop_reason: StopReason | None
    trusts: bool
    asked: frozenset[str]
    """The owners whose death it asks for."""
    miss_counts: bool
    """Nothing that was sent before can still be on its way, as far as this owner's look-up can tell."""
    result: bytes | None


class Owners:
    """What owners do next, as a table: (owner, event) to (owner, the commands it hands in)."""

    def __init__(self, ledger: Ledger, case: Case) -> None:
        self.ledger = ledger
        self.case = case
        self.task, self.call = declared(case)
        self.states = Table()
        self.known: dict[Any, tuple[int, tuple[int, ...]]] = {}
        self.takeovers: dict[Any, int] = {}

    def begin(self, rows: int, past_horizon: bool) -> tuple[int, tuple[int, ...]]:
        """An owner that has just claimed the run."""
        stored = self.ledger.rows.things[rows]
        run = stored.row()
        snapshot = (run.attempt, run.errors, run.crashes, stored.attempts, stored.effects)
        return self._found(snapshot, (("begin", past_horizon),))

    def step(self, owner: int, event: tuple[Any, ...]) -> tuple[int, tuple[int, ...]]:
        found = self.known.get((owner, event))
        if found is None:
            state = self.states.things[owner]
            found = self.known[owner, event] = self._found(state.snapshot, (*state.history, event))
        return found

    def _found(self, snapshot: Any, history: tuple[Any, ...]) -> tuple[int, tuple[int, ...]]:
        with standing_still():
            driven = _Driven(self, snapshot)
            for event in history:
                driven.engine.posted.clear()
                driven.take(event)
            key, state = driven.state(snapshot, history)
        emitted = tuple(self.ledger.command(command) for command in driven.engine.posted)
        return self.states.number(key, state), emitted

    def takeover(self, rows: int, dead: frozenset[str]) -> int:
        """What another worker's round decides about a run whose owner is gone."""
        found = self.takeovers.get((rows, dead))
        if found is None:
            stored = self.ledger.rows.things[rows]
            deciding = expire(FakeStore(stored), stored.row(), {"task": self.task}, JsonCodec(), dead)  # type: ignore[arg-type]
            try:
                deciding.send(None)
            except StopIteration as end:
                found = self.takeovers[rows, dead] = self.ledger.command(end.value.command)
        assert found is not None
        return found


_INTERRUPTING = (StopReason.CANCELLED, StopReason.RELEASED, StopReason.TIMED_OUT)


class _Driven:
    """One run of an owner through its history."""

    def __init__(self, owners: Owners, snapshot: Any) -> None:
        number, errors, crashes, attempts, effects = snapshot
        TIME.now = 0.0
        self.engine = FakeEngine()
        row = RunRow(RUN, "task", RunState.RUNNING, 0.0, attempt=number, errors=errors, crashes=crashes)
        rows = Rows(astuple(row), None, attempts, effects)
        runtime = Runtime(self.engine, JsonCodec(), Seals(), 1 << 20, lease=30.0, heartbeat=10.0)  # type: ignore[arg-type]
        self.attempt = Attempt(
            runtime,
            rows.whole(),
            owners.task,
            owner=attempts[-1][1],
            worker="worker",
            lease_until=float("inf"),
            call_effect=lambda *_: None,
        )
        self.interrupted = False
        self.attempt.interrupt = self._interrupt
        self.attempt.warn = lambda *_: None  # type: ignore[method-assign]
        self.program = self._body(owners)
        self.op: Any = None
        self.over = False
        self.result: bytes | None = None

    def _interrupt(self, stop_reason: StopReason) -> None:
        self.interrupted |= stop_reason in _INTERRUPTING

    def _body(self, owners: Owners) -> Generator[Any, Any, None]:
        """What the executor does with an attempt whose task makes the one call."""
        attempt = self.attempt
        if owners.task.retry.ends_after_crash(attempt.run.row.crashes):
            yield from self._end(crashed_too_often(attempt))
            return
        value, error = None, None
        try:
            value = yield from perform(attempt, owners.call, in_time=True)
        except GeneratorExit:
            raise
        except BaseException as raised:
            error = raised
        if (
            owners.case.swallows
            and error is not None
            and not is_control(error)
            and (yield Choice()) == "swallow"
        ):
            error = None
        disturbed = self.interrupted or attempt.refused or is_control(error)
        attempt.end(StopReason.OVER)
        yield from self._end(end_of(attempt, BodyResult(value, error, disturbed)))

    def _end(self, command: c.EndAttempt | None) -> Generator[Any, Any, None]:
        if command is not None:
            self.result = command.result
            with contextlib.suppress(StoreError):  # Then it is taken over when the lease ends.
                yield Commit(self.attempt, command)

    def take(self, event: tuple[Any, ...]) -> None:
        """One thing that happens to the owner; the last part says whether the horizon has passed."""
        self.engine.store.clock.past_horizon = event[-1]
        match event[0]:
            case "begin":
                self._go(lambda: next(self.program))
            case "reply":
                value = outcome_of(event[1])
                self._go(lambda: self.program.send(value))
            case "row":
                row = None if event[1] is None else thawed_effect(event[1])
                self._go(lambda: self.program.send(row))
            case "answer":
                answers: dict[str, Any] = {
                    "applied": lambda: Applied(event[2]),
                    "not applied": NotApplied,
                    "unknown": lambda: Unknown(retry_after=SETTLE),
                }
                answer = answers[event[1]]()
                self._go(lambda: self.program.send(answer))
            case "slept":
                TIME.now += event[1]
                self._go(lambda: self.program.send(None))
            case "dead" | "value" | "choice":
                self._go(lambda: self.program.send(event[1]))
            case "raise":
                error = ERRORS[event[1]](event[1])
                self._go(lambda: self.program.throw(error))
            case "store error":
                store_error = StoreError("the store is gone", transient=True)
                self._go(lambda: self.program.throw(store_error))
            case "recorded":
                outcome = outcome_of(event[1])
                self.engine.resolves.pop(0)([outcome], None)
            case "not recorded":
                self.engine.resolves.pop(0)(None, StoreError("the store is gone", transient=True))
            case "end":
                self.attempt.end(event[1])
            case "trust ends":
                self.attempt.lease_until = float("-inf")

    def _go(self, resume: Any) -> None:
        try:
            self.op = resume()
        except StopIteration:
            self.over = True
            self.op = None
            return
        if isinstance(self.op, Commit):
            self.engine.posted.append(self.op.command)

    def state(self, snapshot: Any, history: tuple[Any, ...]) -> tuple[Any, OwnerState]:
        attempt = self.attempt
        op = self.op
        waits_for = "over" if self.over else type(op).__name__.lower()
        frames = _frames(self.program)
        asked = op.owners if isinstance(op, AskDead) else frozenset()
        proof = next((f["proof"] for f in frames.values if "proof" in f), None)
        row = attempt.journal.get(KEY)
        key = (
            snapshot[:4] if not self.over else snapshot[0],
            waits_for,
            attempt.stop_reason,
            tuple(attempt.holds),
            attempt.refused,
            attempt.lease_until > 0,
            None if row is None or self.over else frozen_effect(row),
            _since(attempt.began),
            _since(attempt._returned_at.get(KEY)),
            KEY in attempt._answered,
            tuple(getattr(resolve, "__name__", "") for resolve in self.engine.resolves),
            self.interrupted,
            asked,
            frames.key,
        )
        return key, OwnerState(
            snapshot,
            history,
            waits_for,
            attempt.stop_reason,
            attempt.lease_until > 0,
            asked,
            proof is not None and proof.left <= 0,
            self.result,
        )


def _since(moment: float | None) -> float | None:
    """How long ago something was, as far as it matters."""
    return None if moment is None else min(TIME.now - moment, 5 * SETTLE)


class _Frames(NamedTuple):
    key: Any
    values: list[dict[str, Any]]


_CALL_FIELDS = ("tries", "exists", "in_flight", "asked")


def _frames(generator: Any) -> _Frames:
    """Where the generator stands, and what it remembers there."""
    key: list[Any] = []
    values: list[dict[str, Any]] = []
    while generator is not None and getattr(generator, "gi_frame", None) is not None:
        frame = generator.gi_frame
        remembered = frame.f_locals
        values.append(remembered)
        key.append((frame.f_code.co_name, frame.f_lasti))
        key.extend(_plain(name, value) for name, value in remembered.items())
        generator = generator.gi_yieldfrom
    return _Frames(tuple(key), values)


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, EffectRow):
        return (name, frozen_effect(value))
    if isinstance(value, str | int | bool | bytes | type(None)):
        return (name, value)
    if isinstance(value, BaseException):
        return (name, type(value).__name__)
    if name == "proof":
        return (name, value.left > 0, value.owner_dead)
    if hasattr(value, "dead_since"):
        times = (_since(value.dead_since), _since(value.unknown_since), bool(value.look_up_error))
        return (name, times, min(value.asked, 2), value.tries, value.exists, value.in_flight)
    return name


def claim_by(process: int) -> c.Claim:
    return c.Claim(owner_name(process), "worker", 1.0, (c.TaskLimit(("task",)),), 1)


MUTABLE: list[Any] = [
    WorkingSet.lapsed,
    WorkingSet.owns,
    WorkingSet.change_effect,
    effect_rules.start,
    effect_rules._begin_request,
    effect_rules.note_outcome,
    effect_rules._told_before,
    effect_rules._record,
    effect_rules._complete,
    effect_rules._fail,
    effect_rules.settle,
    effect_rules._settle_refusal,
    evidence_rules.executing_now,
    evidence_rules.returned,
    evidence_rules.succeed,
    evidence_rules.settle_by_late_outcome,
    evidence_rules.keep_late_value,
    evidence_rules.credit,
    evidence_rules.add_evidence,
    run_rules.create,
    run_rules.claim,
    run_rules.renew,
    run_rules.mark_releasing,
    run_rules.end_attempt,
    run_rules._may_end,
    run_rules._settle_by_evidence,
    run_rules._end_requests,
    run_rules._must_hold,
    run_rules.undecided,
    run_rules.resume_if_decided,
    run_rules._close_attempt,
    run_rules._count,
    run_rules.cancel,
    run_rules.retry,
    journal_module.answer,
    doubt_module.decide,
    doubt_module.past_horizon,
    look_up_module._worth_of_a_miss,
    look_up_module._settle_not_applied,
    look_up_module._commit,
    call_module.Call._answer_doubt,
    call_module.Call._start,
    call_module.Call._take_back,
    call_module.Call._check_still_allowed,
    call_module.Call._not_called,
    Attempt.check_open,
    Attempt.learn,
    Attempt._take_over,
    Attempt.settle_left,
    outcome_module.end_of,
    outcome_module._after_error,
    expire,
]
"""Where the explorer's mutants are planted: the rules, and the order in which their callers do things."""

__all__ = [
    "IDENTITY",
    "KEY",
    "MUTABLE",
    "RUN",
    "SETTLE",
    "AttemptOutcome",
    "Case",
    "Claim",
    "Due",
    "EffectState",
    "Lapse",
    "Ledger",
    "MovableClock",
    "NewRun",
    "Owners",
    "Policy",
    "PostgresStore",
    "Purged",
    "Rows",
    "RunState",
    "SqliteStore",
    "StopReason",
    "StoredRun",
    "astuple",
    "c",
    "claim_by",
    "frozen_effect",
    "outcome_key",
    "owner_name",
    "plain",
    "replace",
]
