"""How an attempt ends, as a table: the engine's own state decides, not whichever exception left the body."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from effectlog import EffectFailed, JsonCodec, LeaseLost, Retry, StoreError
from effectlog.attempt.stop_reason import StopReason
from effectlog.engine.runtime import Runtime
from effectlog.keys import Seals
from effectlog.model import AttemptOutcome, RunState
from effectlog.store.commands import EndAttempt, Fence
from effectlog.store.rows import RunRow, StoredRun
from effectlog.worker.outcome import BodyResult, end_of

OVER, LOST, CANCELLED, RELEASED = StopReason.OVER, StopReason.LOST, StopReason.CANCELLED, StopReason.RELEASED
TIMED_OUT, HELD, UNABLE = StopReason.TIMED_OUT, StopReason.HELD, StopReason.UNABLE
OUTCOME = AttemptOutcome


@dataclass
class Task:
    name: str = "a task"
    retry: Retry = field(default_factory=Retry)
    timeout: float = 5.0
    on_dead: str | None = None


@dataclass
class Engine:
    """Its store has raised every StoreError here."""

    def owns_error(self, error: BaseException) -> bool:
        return isinstance(error, StoreError)


@dataclass
class State:
    """What the decision reads of an attempt."""

    stop_reason: StopReason | None
    errors: int = 0
    task: Task = field(default_factory=Task)
    holds: dict[str, str] = field(default_factory=dict)
    unawaited: dict[int, Any] = field(default_factory=dict)
    back_in: float = 0.0
    not_before: float = 0.0
    unreadable_here: bool = False
    paused_for: float = 0.0
    fence: Fence = field(default_factory=lambda: Fence("run", 1))
    engine: Any = field(default_factory=Engine)
    runtime: Runtime = field(init=False)
    run: StoredRun = field(init=False)
    reason: str = field(init=False)

    def __post_init__(self) -> None:
        row = RunRow("run", "a task", RunState.RUNNING, 0.0, errors=self.errors)
        self.run = StoredRun(row, b"{}", 0.0)
        self.runtime = Runtime(self.engine, JsonCodec(), Seals(), 100, lease=30.0, heartbeat=10.0)
        self.reason = str(self.stop_reason)


def decided(state: State, body: BodyResult) -> EndAttempt | None:
    attempt: Any = state
    return end_of(attempt, body)


BROKEN = ValueError("the task's own")
SIGNAL = LeaseLost("the attempt is over", run_id="run")
STORE = StoreError("the database is away", run_id="run")


@pytest.mark.parametrize(
    ("stop_reason", "body", "outcome", "state"),
    [
        (OVER, BodyResult(value=1), OUTCOME.SUCCEEDED, RunState.SUCCEEDED),
        (OVER, BodyResult(error=BROKEN), OUTCOME.ERROR, RunState.PENDING),
        (OVER, BodyResult(error=EffectFailed("declined")), OUTCOME.ERROR, RunState.FAILED),
        (
            OVER,
            BodyResult(error=ExceptionGroup("", [EffectFailed("declined")])),
            OUTCOME.ERROR,
            RunState.FAILED,
        ),
        (OVER, BodyResult(error=asyncio.CancelledError()), OUTCOME.ERROR, RunState.PENDING),
        # The store's trouble is not the task's.
        (OVER, BodyResult(error=STORE), OUTCOME.RELEASED, RunState.PENDING),
        (OVER, BodyResult(error=ExceptionGroup("", [STORE, STORE])), OUTCOME.RELEASED, RunState.PENDING),
        (OVER, BodyResult(error=ExceptionGroup("", [STORE, BROKEN])), OUTCOME.ERROR, RunState.PENDING),
        # Told to stop, and it stopped: what it raised meanwhile decides nothing.
        (CANCELLED, BodyResult(error=SIGNAL, disturbed=True), OUTCOME.CANCELLED, RunState.CANCELLED),
        (CANCELLED, BodyResult(error=BROKEN, disturbed=True), OUTCOME.CANCELLED, RunState.CANCELLED),
        (RELEASED, BodyResult(error=SIGNAL, disturbed=True), OUTCOME.RELEASED, RunState.PENDING),
        (UNABLE, BodyResult(error=SIGNAL, disturbed=True), OUTCOME.RELEASED, RunState.PENDING),
        (TIMED_OUT, BodyResult(error=SIGNAL, disturbed=True), OUTCOME.TIMED_OUT, RunState.PENDING),
        # A body that swallowed the signal was disturbed all the same.
        (CANCELLED, BodyResult(value=1, disturbed=True), OUTCOME.CANCELLED, RunState.CANCELLED),
        (RELEASED, BodyResult(value=1, disturbed=True), OUTCOME.RELEASED, RunState.PENDING),
        # One that was through before it heard of it has succeeded.
        (CANCELLED, BodyResult(value=1), OUTCOME.SUCCEEDED, RunState.SUCCEEDED),
        (RELEASED, BodyResult(value=1), OUTCOME.SUCCEEDED, RunState.SUCCEEDED),
        (TIMED_OUT, BodyResult(value=1), OUTCOME.SUCCEEDED, RunState.SUCCEEDED),
    ],
)
def test_each_end_has_one_record(
    stop_reason: StopReason, body: BodyResult, outcome: AttemptOutcome, state: RunState
) -> None:
    command = decided(State(stop_reason), body)
    assert command is not None
    assert (command.outcome, command.state) == (outcome, state)


@pytest.mark.parametrize(
    "body", [BodyResult(value=1), BodyResult(error=BROKEN), BodyResult(error=SIGNAL, disturbed=True)]
)
def test_who_lost_the_run_has_nothing_to_say(body: BodyResult) -> None:
    assert decided(State(LOST), body) is None


@pytest.mark.parametrize("stop_reason", [OVER, HELD, CANCELLED, TIMED_OUT, RELEASED])
@pytest.mark.parametrize(
    "body", [BodyResult(value=1), BodyResult(error=BROKEN), BodyResult(error=SIGNAL, disturbed=True)]
)
def test_an_effect_that_waits_for_a_decision_comes_before_everything_else(
    stop_reason: StopReason, body: BodyResult
) -> None:
    command = decided(State(stop_reason, holds={"charge:7": "its policy is to hold"}), body)
    assert command is not None
    assert (command.outcome, command.state) == (OUTCOME.HELD, RunState.HELD)
    assert command.holds == ("charge:7",)
    assert command.error is not None
    assert "its policy is to hold" in command.error.message


@pytest.mark.parametrize(
    ("retry", "errors", "state"),
    [
        (Retry(max_attempts=3), 1, RunState.PENDING),
        (Retry(max_attempts=3), 2, RunState.FAILED),
        (Retry(max_attempts=1), 0, RunState.FAILED),
        (Retry(max_attempts=9, give_up_on=(ValueError,)), 0, RunState.FAILED),
        (Retry(max_attempts=9, give_up_on=(KeyError,)), 0, RunState.PENDING),
    ],
)
def test_the_declared_retry_says_whether_it_was_the_last(retry: Retry, errors: int, state: RunState) -> None:
    command = decided(State(OVER, errors, Task(retry=retry)), BodyResult(error=BROKEN))
    assert command is not None
    assert command.state is state


def test_a_result_that_can_not_be_kept_is_a_failure_and_no_success() -> None:
    for value in (object(), "x" * 1000):
        command = decided(State(OVER), BodyResult(value=value))
        assert command is not None
        assert command.state is RunState.FAILED
        assert command.error is not None
        assert command.error.type.endswith("EncodingError")
