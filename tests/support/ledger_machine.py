"""Any interleaving of owners, crashes, late outcomes and people may cost attempts, never a run, a result or a doubt.

The machine runs real SQLite transactions on one run with two effects, as two processes would on one file.
Beside them it keeps its own simple picture: who owns the run, and which requests have no known outcome. Both
must agree after every move.
"""

from __future__ import annotations

import sqlite3
import tempfile
import uuid
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from effectlog.model import AttemptOutcome, EffectState, Policy, RunState
from effectlog.store import commands as c
from effectlog.store.rows import NewRun, RequestClock
from effectlog.store.sqlite import file as sqlite_file
from effectlog.store.sqlite.apply import apply_batch, load_runs
from effectlog.store.sqlite.running_runs import RunningRuns
from effectlog.testing.clock import MovableClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from effectlog.store.rows import EffectRow, StoredRun

RUN = "run"
KEYS = ["charge", "charge", "charge", "mail"]
STALE = [0, 0, 0, 1, 2]
"""How many attempts ago the acting one was: mostly it is the newest, now and then one that knows no better.
"""
FLAG = [False, True]
LEASES = [5.0, 30.0]
LAPSES = [RunState.PENDING, RunState.PENDING, RunState.FAILED]
ENDS = [
    (RunState.SUCCEEDED, AttemptOutcome.SUCCEEDED),
    (RunState.FAILED, AttemptOutcome.ERROR),
    (RunState.PENDING, AttemptOutcome.ERROR),
    (RunState.PENDING, AttemptOutcome.RELEASED),
    (RunState.HELD, AttemptOutcome.HELD),
    (RunState.CANCELLED, AttemptOutcome.CANCELLED),
]
MOVES: dict[str, tuple[int, dict[str, list[object]]]] = {
    "a_request_starts": (
        6,
        {"stale": STALE, "key": KEYS, "policy": [*Policy], "unseen": [0, 0, 0, 1]},
    ),
    "a_request_returns": (
        3,
        {"late": [0, 1, 1, 2], "outcome": [*c.RequestOutcome, c.RequestOutcome.NOT_APPLIED], "twice": FLAG},
    ),
    "another_worker_takes_over": (5, {"dies": [False, False, True], "state": LAPSES, "at_once": FLAG}),
    "an_attempt_ends": (1, {"stale": STALE, "end": ENDS, "hold": FLAG}),
    "somebody_decides": (1, {"key": KEYS, "applied": FLAG, "told": FLAG}),
    "time_passes_and_an_attempt_renews": (1, {"stale": STALE, "lease": LEASES, "seconds": [1.0, 4.0, 10.0]}),
    "somebody_takes_an_attempt_for_lapsed": (1, {"stale": STALE, "state": LAPSES}),
    "somebody_interferes": (1, {"action": ["ask", "ask", "cancel", "retry", "force retry"]}),
}
"""Every move with its weight in a random walk and the values of its parameters."""


def _rule(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return rule(**{key: st.sampled_from(values) for key, values in MOVES[name][1].items()})


@dataclass(frozen=True)
class Request:
    """One call of an effect's function, whose process may report on it, however late."""

    fence: c.Fence
    key: str
    number: int


class Interleavings(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = MovableClock()
        self.folder = tempfile.TemporaryDirectory()
        self.processes = [self.process(), self.process()]
        self.turn = 0
        self.read: StoredRun | None = None
        self.count = 0
        self.dead: set[str] = set()
        self.fences: list[c.Fence] = []
        self.lease: tuple[c.Fence, float] | None = None
        self.flying: list[Request] = []
        self.open: dict[str, set[Request]] = defaultdict(set)
        self.made: Counter[str] = Counter()
        self.reported: set[str] = set()
        self.completed: dict[str, EffectRow] = {}
        self.do(c.CreateRuns((NewRun(RUN, "task", b"[]"),), "task"))
        self.seen = self.stored()

    def teardown(self) -> None:
        try:
            self.the_run_can_be_brought_to_its_end()
        finally:
            for connection, _ in self.processes:
                connection.close()
            self.folder.cleanup()

    # --- helpers ------------------------------------------------------------------------------

    def process(self) -> tuple[sqlite3.Connection, RunningRuns]:
        connection = sqlite3.connect(f"{self.folder.name}/effectlog.db", isolation_level=None)
        sqlite_file.prepare(connection, "file")
        connection.execute(
            "PRAGMA synchronous = OFF"
        )  # No power fails here, and waiting for disks takes long.
        return connection, RunningRuns()

    def do(self, command: c.Command) -> c.Outcome:
        self.turn += 1
        self.read = None
        # Two moves in one process, one in the other: what a process keeps in memory is used, and gets stale.
        connection, live = self.processes[self.turn % 3 == 0]
        return apply_batch(connection, self.clock, live, [command])[0]

    def accepted(self, command: c.Command) -> bool:
        """Whether the command was applied; a refused one must leave everything as it was."""
        before = self.stored()
        refused = isinstance(self.do(command), c.Refused)
        assert not refused or self.stored() == before, "a refused command changed something"
        return not refused

    def stored(self) -> StoredRun:
        if self.read is None:
            (self.read,) = load_runs(self.processes[0][0], [RUN])
        return self.read

    def effect(self, key: str) -> EffectRow | None:
        found = [effect for effect in self.stored().effects if effect.key == key]
        return found[0] if found else None

    def owner(self, fence: c.Fence) -> str:
        """Every attempt has an owner of its own, so that one dies without the others."""
        return f"owner {fence.attempt}"

    def live(self, fence: c.Fence) -> bool:
        """Our own picture of ownership, from claims, renewals and ends alone."""
        return self.lease is not None and self.lease[0] == fence and self.clock.monotonic() < self.lease[1]

    def attempt(self, stale: int) -> c.Fence:
        """An attempt to act for.

        Most moves need a run that is being executed, so where it can be had it is.
        """
        if self.lease is not None and not self.live(self.lease[0]):
            self.ends_a_lapsed_attempt(RunState.PENDING)
        if self.stored().row.state.ended and (not self.fences or self.count % 3):
            self.retry(force=False)
        if self.lease is None:
            self.claim(30.0)
        if not self.fences:
            self.retry(force=False)
            self.claim(30.0)
        return self.fences[-1 - stale % len(self.fences)]

    # --- owners -------------------------------------------------------------------------------

    def claim(self, lease: float) -> None:
        fence = c.Fence(RUN, self.fences[-1].attempt + 1 if self.fences else 1)
        outcome = self.do(c.Claim(self.owner(fence), "worker", lease, (c.TaskLimit(("task",)),), 1))
        assert isinstance(outcome, c.Claimed)
        for run in outcome.runs:
            assert self.lease is None, "a run that somebody owns was claimed"
            assert run.row.attempt == fence.attempt, "a fence was left out or given out twice"
            self.fences.append(fence)
            self.lease = (fence, self.clock.monotonic() + lease)

    @_rule("time_passes_and_an_attempt_renews")
    def time_passes_and_an_attempt_renews(self, stale: int, lease: float, seconds: float) -> None:
        fence = self.attempt(stale)
        self.clock.advance(seconds)
        before = self.stored()
        outcome = self.do(c.Renew(self.owner(fence), lease, (fence,)))
        assert isinstance(outcome, c.Renewed)
        assert (RUN in outcome.lost) != self.live(fence)
        if self.live(fence):
            self.lease = (fence, self.clock.monotonic() + lease)
        else:
            assert self.stored() == before

    @precondition(lambda self: self.lease is not None)
    @_rule("another_worker_takes_over")
    def another_worker_takes_over(self, dies: bool, state: RunState, at_once: bool) -> None:
        assert self.lease is not None
        if dies:
            owner = self.owner(self.lease[0])
            self.dead.add(owner)
            self.flying = [request for request in self.flying if self.owner(request.fence) != owner]
        else:
            self.clock.advance(40.0)
        if at_once:
            self.ends_a_lapsed_attempt(state)
            self.claim(30.0)

    def ends_a_lapsed_attempt(self, state: RunState, fence: c.Fence | None = None) -> None:
        fence = fence or self.fences[-1]
        dead = frozenset(self.dead)
        lapsed = self.lease is not None and self.lease[0] == fence
        lapsed = lapsed and (not self.live(fence) or self.owner(fence) in dead)
        outcome = AttemptOutcome.EXPIRED
        command = c.EndAttempt(fence, outcome, state, guard=c.Guard.LAPSED, dead_owners=dead)
        assert self.accepted(command) == lapsed, "a live attempt was ended by others, or a lapsed one was not"
        if lapsed:
            self.lease = None

    @precondition(lambda self: bool(self.fences))
    @_rule("somebody_takes_an_attempt_for_lapsed")
    def somebody_takes_an_attempt_for_lapsed(self, stale: int, state: RunState) -> None:
        self.ends_a_lapsed_attempt(state, self.fences[-1 - stale % len(self.fences)])

    @_rule("an_attempt_ends")
    def an_attempt_ends(self, stale: int, end: tuple[RunState, AttemptOutcome], hold: bool) -> None:
        fence, (state, outcome) = self.attempt(stale), end
        if outcome is AttemptOutcome.RELEASED:
            assert self.accepted(c.MarkReleasing(fence)) == self.live(fence)
        result = b"null" if state is RunState.SUCCEEDED else None
        command = c.EndAttempt(fence, outcome, state, result=result, holds=("charge", "mail") if hold else ())
        assert self.accepted(command) == self.live(fence), "a stale fence ended a run, or the owner could not"
        if self.live(fence):
            self.lease = None

    # --- effects ------------------------------------------------------------------------------

    @_rule("a_request_starts")
    def a_request_starts(self, stale: int, key: str, policy: Policy, unseen: int) -> None:
        fence = self.attempt(stale)
        effect = self.effect(key)
        version = effect.version if effect else 0
        clock = RequestClock(self.clock.wall(), self.clock.boot(), "boot")
        operation = str(uuid.uuid5(uuid.NAMESPACE_OID, key))
        seen = max(0, version - unseen)
        command = c.StartEffect(fence, key, seen, key, operation, 0, {}, policy, clock)
        may = self.live(fence) and not self.stored().row.cancel_requested
        may = may and seen == version and not (effect and effect.settled_for_good)
        assert self.accepted(command) == may, "started by a stale fence, unseen, or over a settled effect"
        if may:
            self.count += 1
            request = Request(fence, key, self.count)
            self.open[key].add(request)
            self.made[key] += 1
            if self.owner(fence) not in self.dead:
                self.flying.append(request)

    @precondition(lambda self: bool(self.flying))
    @_rule("a_request_returns")
    def a_request_returns(self, late: int, outcome: c.RequestOutcome, twice: bool) -> None:
        request = self.flying.pop(-1 - late % len(self.flying))
        result = b"%d" % request.number if outcome is c.RequestOutcome.COMPLETED else None
        command = c.FinishEffect(request.fence, request.key, outcome, result=result)
        before = self.stored().row
        answer = self.do(command)
        after = self.stored().row
        went_on = before.state is RunState.HELD and after.state is RunState.PENDING
        assert went_on or after == before, "an outcome changed its run"
        if outcome is c.RequestOutcome.COMPLETED:
            self.reported.add(request.key)
        if outcome in (c.RequestOutcome.NOT_APPLIED, c.RequestOutcome.NOT_MADE):
            self.open[request.key].discard(request)
        self.made[request.key] -= outcome is c.RequestOutcome.NOT_MADE
        if twice:
            again = self.do(command)
            assert isinstance(answer, c.EffectStored)
            assert isinstance(again, c.EffectStored)
            assert again.effect.open_requests == answer.effect.open_requests
            assert again.effect.state is answer.effect.state

    @precondition(lambda self: self.count > 0)
    @_rule("somebody_decides")
    def somebody_decides(self, key: str, applied: bool, told: bool) -> None:
        effect = self.effect(key)
        dead = frozenset(self.dead if told else ())
        result = b'"decided"' if applied else None
        if not self.accepted(c.SettleEffect(RUN, key, applied, "ann", result=result, dead_owners=dead)):
            return
        assert effect is not None
        assert effect.unsettled, "what was settled has been settled again"
        fence = self.fences[-1]
        executing = self.live(fence) and fence.attempt in effect.executing
        assert not executing or self.owner(fence) in dead, "settled while a live owner executes it"
        self.open[key].clear()

    # --- people -------------------------------------------------------------------------------

    @_rule("somebody_interferes")
    def somebody_interferes(self, action: str) -> None:
        if "retry" in action:
            self.retry(force="force" in action)
        elif self.lease is not None or action == "cancel":
            outcome = self.do(c.CancelRun(RUN, force=action == "cancel"))
            assert isinstance(outcome, c.RunMoved)
            self.lease = self.lease if outcome.state is RunState.RUNNING else None

    def retry(self, *, force: bool) -> None:
        live = self.lease is not None and self.live(self.lease[0])
        if self.accepted(c.RetryRun(RUN, force=force)):
            assert force or not live, "a live owner's run was taken from it without force"
            self.lease = None

    # --- what must hold after every move --------------------------------------------------------

    def check(self) -> None:
        """Everything that must hold after every move."""
        self.the_run_is_not_lost_and_has_one_owner()
        self.a_completed_result_never_changes_and_is_never_requested_again()
        self.a_reported_success_is_never_forgotten()
        self.no_request_that_was_made_is_left_uncounted()
        self.nothing_overtakes_the_request_of_a_live_owner()
        self.a_request_without_outcome_is_never_taken_for_harmless()
        self.the_version_of_an_effect_tells_every_change()

    @invariant()
    def the_run_is_not_lost_and_has_one_owner(self) -> None:
        run = self.stored()
        row, doubts = run.row, [effect for effect in run.effects if effect.unsettled]
        going_on = [attempt.number for attempt in run.attempts if attempt.outcome is None]
        assert [attempt.number for attempt in run.attempts] == list(range(1, row.attempt + 1))
        assert going_on == ([self.lease[0].attempt] if self.lease else [])
        assert (row.state is RunState.RUNNING) == (self.lease is not None) == (row.owner is not None)
        assert row.state.ended == (row.finished_at is not None)
        waits = any(effect.policy is not Policy.RESEND for effect in doubts)
        assert waits or row.state is not RunState.HELD, "held, and nobody can decide anything"

    @invariant()
    def a_completed_result_never_changes_and_is_never_requested_again(self) -> None:
        for effect in self.stored().effects:
            first = self.completed.get(effect.key)
            if first is not None:
                now = (effect.state, effect.result, effect.requests)
                assert now == (EffectState.COMPLETED, first.result, first.requests)
            elif effect.state is EffectState.COMPLETED:
                self.completed[effect.key] = effect

    @invariant()
    def no_request_that_was_made_is_left_uncounted(self) -> None:
        for effect in self.stored().effects:
            assert effect.requests >= self.made[effect.key]

    @invariant()
    def a_reported_success_is_never_forgotten(self) -> None:
        run = self.stored()
        for effect in run.effects:
            if effect.key in self.reported and not effect.settled_for_good:
                # It is known, and waits only for the owner's own request to return.
                assert effect.late_attempt is not None
                assert run.row.state is RunState.RUNNING
                assert run.row.attempt in effect.executing

    @invariant()
    def nothing_overtakes_the_request_of_a_live_owner(self) -> None:
        if self.lease is None or not self.live(self.lease[0]) or self.owner(self.lease[0]) in self.dead:
            return
        for effect in self.stored().effects:
            if self.lease[0].attempt in effect.executing:
                assert effect.unsettled, "settled while its owner executes it"

    @invariant()
    def a_request_without_outcome_is_never_taken_for_harmless(self) -> None:
        for effect in self.stored().effects:
            if effect.state is EffectState.FAILED and not effect.final:
                assert not self.open[effect.key], "a doubt was hidden"

    @invariant()
    def the_version_of_an_effect_tells_every_change(self) -> None:
        before, self.seen = self.seen, self.stored()
        after = {effect.key: effect for effect in self.seen.effects}
        for effect in before.effects:
            assert after[effect.key] == effect or after[effect.key].version > effect.version

    def the_run_can_be_brought_to_its_end(self) -> None:
        """Whatever happened, nothing is stuck: leases lapse, people decide, and a worker does the rest."""
        self.clock.advance(1000)
        if self.lease is not None:
            self.ends_a_lapsed_attempt(RunState.PENDING)
        for key in ("charge", "mail"):
            self.do(c.SettleEffect(RUN, key, applied=True, by="ann", result=b"1"))
        self.do(c.RetryRun(RUN))
        self.claim(60.0)
        if self.lease is not None:
            end = c.EndAttempt(self.lease[0], AttemptOutcome.SUCCEEDED, RunState.SUCCEEDED, result=b"1")
            assert isinstance(self.do(end), c.RunMoved)
        assert self.stored().row.state is RunState.SUCCEEDED
