"""Danger: a task retries for longer than its destination remembers keys, and nobody is told before the run is held."""

import warnings
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effectlog import EffectLog, EffectLogWarning, Retry, durable_task, effect
from effectlog.contract import Destination
from effectlog.destinations import SQS_FIFO

FIVE_MINUTES = SQS_FIFO
LONG = Retry(max_attempts=10, delay=60.0)
SHORT = Retry(max_attempts=3, delay=1.0)


@given(
    attempts=st.integers(1, 40),
    delay=st.floats(0, 100),
    backoff=st.floats(1, 4),
    longest=st.floats(0, 300),
    jitter=st.floats(0, 1),
)
def test_the_longest_wait_is_the_sum_of_all_delays_at_their_longest(
    attempts: int, delay: float, backoff: float, longest: float, jitter: float
) -> None:
    retry = Retry(max_attempts=attempts, delay=delay, backoff=backoff, max_delay=longest, jitter=jitter)
    delays = [min(delay * backoff**number, longest) * (1 + jitter) for number in range(attempts - 1)]
    assert retry.longest_wait() == pytest.approx(sum(delays))
    assert (
        retry.longest_wait() >= sum(retry.delay_after(number) for number in range(1, attempts)) * 0.999 - 1e-9
    )


def test_a_retry_without_end_is_summed_up_at_once() -> None:
    assert Retry(max_attempts=10**12, delay=1.0).longest_wait() > 10**14


def test_an_effects_own_retries_are_told_at_decoration() -> None:
    with pytest.warns(EffectLogWarning, match=r"effect outlasts may retry .* aws/sqs-fifo .* will be held"):
        effect(key="send", name="outlasts", destination=FIVE_MINUTES, retry=LONG)(lambda: None)


@pytest.mark.parametrize(
    "options",
    [
        {"destination": FIVE_MINUTES, "retry": SHORT},
        {"destination": FIVE_MINUTES},
        {"destination": FIVE_MINUTES, "retry": LONG, "in_doubt": "hold"},
        {"destination": FIVE_MINUTES, "retry": LONG, "in_doubt": lambda: None},
        {"destination": Destination("remembers", retention=timedelta(days=30)), "retry": LONG},
        {"destination": Destination("blind", on_repeat="ignores"), "retry": LONG, "in_doubt": "resend"},
        {"retry": LONG},
    ],
)
def test_what_can_not_outlast_is_not_told(options: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        effect(key="send", name="keeps", **options)(lambda: None)


@effect(key="send:{name}", name="outlasted", destination=FIVE_MINUTES)
def send(name: str) -> str:
    return name


@effect(key="look:{name}", name="looked-up", destination=FIVE_MINUTES, in_doubt="hold")
def send_held(name: str) -> str:
    return name


@durable_task(name="outlasting", retry=LONG)
def outlasting() -> None:
    for name in ("one", "two"):
        send(name)
        send_held(name)


@durable_task(name="not-outlasting", retry=SHORT)
def not_outlasting() -> None:
    send("one")


async def test_a_tasks_retries_are_told_once_for_each_effect_that_they_outlast(log: EffectLog) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        async with log.worker():
            for task in (outlasting, outlasting, not_outlasting):
                run = await log.enqueue(task)
                await run.result(timeout=20)
    messages = [str(warning.message) for warning in told if issubclass(warning.category, EffectLogWarning)]
    assert len(messages) == 1
    assert "task outlasting may retry" in messages[0]
    assert "effect outlasted" in messages[0]
