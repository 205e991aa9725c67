"""Danger: a destination has forgotten a key, and the same key makes a second effect in silence.

The send horizon (first request + retention - margin) survives restarts, reboots and clock steps, and is
looked at again right before the call.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from effectlog import Applied, EffectLog, Retry, Run, durable_task, effect, operation_id
from effectlog.contract import FOREVER, Destination
from effectlog.store import commands as c
from effectlog.store.sqlite.store import SqliteStore
from effectlog.testing.clock import MovableClock

HOUR = 3600.0
DAY = 24 * HOUR
HORIZON = 23 * HOUR

sent: list[str] = []


def request() -> str:
    sent.append(operation_id())
    if len(sent) == 1:
        raise ConnectionResetError("no answer")
    return "second"


def declare(destination: Destination | None, in_doubt: Any = None) -> Any:
    """The effect as some release of the code declares it; the stored name stays."""

    @effect(key="send", name="horizon", destination=destination, in_doubt=in_doubt)
    def send() -> str:
        return request()

    return send


ONE_DAY = Destination("keeps/a-day", retention=timedelta(days=1), settle=timedelta(0))
release: list[Any] = []


def deploy(destination: Destination | None, in_doubt: Any = None) -> None:
    """Another release of the code; the process that had the former one is gone."""
    release.clear()
    release.append(declare(destination, in_doubt))


second_attempt: list[Callable[[], None]] = []


@durable_task(name="horizon-task", retry=Retry(delay=1.0, jitter=0.0))
def task() -> str:
    if sent:
        second_attempt[-1]()
    result: str = release[-1]()
    return result


@pytest.fixture(autouse=True)
def _first_release() -> None:
    sent.clear()
    deploy(ONE_DAY)
    second_attempt[:] = [lambda: None]


Later = Callable[[MovableClock], None]


async def lost(path: str, clock: MovableClock) -> str:
    """The first request is made, its answer is lost, and every process ends."""
    async with EffectLog(SqliteStore(path, clock=clock), check_store=False) as log:
        run = await log.enqueue(task)
        async with log.worker():
            while (await run.record()).state != "pending" or not sent:
                await asyncio.sleep(0.01)
    return run.id


async def restarted(path: str, clock: MovableClock, until: Any) -> Any:
    clock.advance(2.0)  # The retry is due.
    async with EffectLog(SqliteStore(path, clock=clock), check_store=False) as log, log.worker():
        return await until(await log.get_run(run_ids[-1]), "held", "succeeded", "failed")


run_ids: list[str] = []


async def play(path: str, until: Any, later: Later) -> Any:
    clock = MovableClock()
    run_ids.append(await lost(path, clock))
    later(clock)
    return await restarted(path, clock, until)


def back_before_the_first_request(clock: MovableClock) -> None:
    """Stepped after the claim, as no run is due before its own past."""
    second_attempt.append(lambda: clock.step_wall(-10.0))


def back_after_a_day(clock: MovableClock) -> None:
    """The wall clock says that an hour has passed; the clock that nobody can step knows better."""
    clock.advance(DAY)
    clock.step_wall(-23 * HOUR)


def forward(clock: MovableClock) -> None:
    clock.step_wall(DAY)


def asleep(clock: MovableClock) -> None:
    clock.sleep(DAY)


def asleep_and_stepped_back(clock: MovableClock) -> None:
    clock.sleep(DAY)
    clock.step_wall(-23 * HOUR)


def rebooted_a_day_later(clock: MovableClock) -> None:
    clock.reboot()
    clock.step_wall(DAY)


def just_past(clock: MovableClock) -> None:
    clock.advance(HORIZON)


@pytest.mark.parametrize(
    "later",
    [
        back_before_the_first_request,
        back_after_a_day,
        forward,
        asleep,
        asleep_and_stepped_back,
        rebooted_a_day_later,
        just_past,
    ],
)
async def test_past_the_horizon_it_is_held_and_not_sent(path: str, until: Any, later: Later) -> None:
    record = await play(path, until, later)
    assert record.state == "held"
    assert len(sent) == record.effects[0].requests == 1
    assert "send horizon" in record.attempts[-1].error.message


def right_after(clock: MovableClock) -> None:
    clock.advance(1.0)


def just_before(clock: MovableClock) -> None:
    clock.advance(HORIZON - 60)


def rebooted_an_hour_later(clock: MovableClock) -> None:
    clock.reboot()
    clock.step_wall(HOUR)


@pytest.mark.parametrize("later", [right_after, just_before, rebooted_an_hour_later])
async def test_within_the_horizon_the_same_id_is_sent_again(path: str, until: Any, later: Later) -> None:
    record = await play(path, until, later)
    assert record.state == "succeeded"
    assert (len(sent), len(set(sent))) == (2, 1)


async def test_a_resend_does_not_lengthen_the_horizon(path: str, until: Any) -> None:
    """It counts from the first request: a key that is used again is not remembered for longer."""
    clock = MovableClock()
    run_ids.append(await lost(path, clock))
    clock.advance(HORIZON - HOUR)
    async with EffectLog(SqliteStore(path, clock=clock), check_store=False) as log:
        sent.clear()  # The second request loses its answer as well.
        async with log.worker():
            run: Run[Any] = await log.get_run(run_ids[-1])
            while (await run.record()).state != "pending" or not sent:
                await asyncio.sleep(0.01)
    clock.advance(HOUR)
    record = await restarted(path, clock, until)
    assert record.state == "held"
    assert record.effects[0].requests == 2


async def test_an_unknown_retention_allows_one_hour(path: str, until: Any) -> None:
    deploy(Destination("keeps/unknown", settle=timedelta(0)))
    record = await play(path, until, lambda clock: clock.advance(HOUR))
    assert (record.state, len(sent)) == ("held", 1)


async def test_a_key_that_is_never_forgotten_is_sent_at_any_time(path: str, until: Any) -> None:
    deploy(Destination("keeps/for-ever", retention=FOREVER, settle=timedelta(0)))
    record = await play(path, until, lambda clock: clock.advance(1000 * DAY))
    assert (record.state, len(sent)) == ("succeeded", 2)


async def test_a_look_up_answers_past_the_horizon(path: str, until: Any) -> None:
    deploy(ONE_DAY, in_doubt=lambda: Applied("found"))
    record = await play(path, until, lambda clock: clock.advance(DAY))
    assert (record.state, record.result, len(sent)) == ("succeeded", "found", 1)


async def test_a_release_that_declares_no_contract_is_bound_by_the_stored_one(path: str, until: Any) -> None:
    def upgrade(clock: MovableClock) -> None:
        deploy(None)
        clock.advance(DAY)

    record = await play(path, until, upgrade)
    assert (record.state, len(sent)) == ("held", 1)


@pytest.mark.parametrize("in_doubt", [None, lambda: pytest.fail("another account can't be asked")])
async def test_another_account_knows_neither_key_nor_operation(path: str, until: Any, in_doubt: Any) -> None:
    deploy(ONE_DAY.replace(account="live/eu"))

    def upgrade(_: MovableClock) -> None:
        deploy(ONE_DAY.replace(account="live/us"), in_doubt)

    record = await play(path, until, upgrade)
    assert (record.state, len(sent)) == ("held", 1)
    assert "live/eu" in record.attempts[-1].error.message
    assert "live/us" in record.attempts[-1].error.message


class SlowStore(SqliteStore):
    """The machine is suspended while *started* is being committed; its leases stand still meanwhile."""

    async def apply(self, commands: Sequence[c.Command]) -> list[Any]:
        if any(isinstance(command, c.StartEffect) for command in commands):
            self.clock.sleep(DAY)  # type: ignore[attr-defined]
        return await super().apply(commands)


async def test_the_horizon_is_looked_at_again_right_before_the_call(path: str, until: Any) -> None:
    clock = MovableClock()
    run_id = await lost(path, clock)
    clock.advance(2.0)
    async with EffectLog(SlowStore(path, clock=clock), check_store=False) as log, log.worker():
        record = await until(await log.get_run(run_id), "held", "succeeded")
    assert record.state == "held"
    assert len(sent) == 1, "the second request was announced and not made"
    stored = record.effects[0]
    assert (stored.requests, stored.state) == (1, "started")
