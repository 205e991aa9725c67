"""When and how often something is tried again, as a table."""

from __future__ import annotations

import pytest

from effectlog import Retry

DAY = 86_400.0


@pytest.mark.parametrize(
    ("max_attempts", "errors", "ends"),
    [(3, 1, False), (3, 2, False), (3, 3, True), (1, 1, True), (3, 4, True)],
)
def test_the_declared_error_is_the_last(max_attempts: int, errors: int, ends: bool) -> None:
    assert Retry(max_attempts=max_attempts).ends_after_error(errors) is ends


@pytest.mark.parametrize(
    ("max_attempts", "max_crashes", "crashes", "ends"),
    [
        (3, 5, 0, False),
        (3, 5, 4, False),
        (3, 5, 5, True),
        (1, 5, 0, False),  # Nothing was interrupted yet.
        (1, 5, 1, True),  # Whoever wants no second attempt does not want one after a crash either.
    ],
)
def test_crashes_are_counted_apart(max_attempts: int, max_crashes: int, crashes: int, ends: bool) -> None:
    assert Retry(max_attempts=max_attempts, max_crashes=max_crashes).ends_after_crash(crashes) is ends


@pytest.mark.parametrize(
    ("retry", "delays"),
    [
        (Retry(delay=1.0, backoff=2.0, max_delay=5.0, jitter=0.0), [1.0, 2.0, 4.0, 5.0, 5.0]),
        (Retry(delay=0.0, jitter=0.0), [0.0] * 5),
        (Retry(delay=3.0, backoff=1.0, jitter=0.0), [3.0] * 5),
        (Retry(delay=10.0, max_delay=2.0, jitter=0.0), [2.0] * 5),
    ],
)
def test_delays_grow_to_their_limit(retry: Retry, delays: list[float]) -> None:
    assert [retry.delay_after(errors) for errors in range(1, 6)] == delays


def test_no_number_of_errors_overflows() -> None:
    assert Retry(max_delay=7.0, jitter=0.0).delay_after(10**6) == 7.0


def test_jitter_only_lengthens() -> None:
    found = [Retry(delay=10.0, jitter=0.5).delay_after(1) for _ in range(200)]
    assert min(found) >= 10.0
    assert max(found) <= 15.0
    assert len(set(found)) > 1


@pytest.mark.parametrize(
    ("retry", "longest"),
    [
        (Retry(max_attempts=1), 0.0),
        (Retry(max_attempts=3, delay=1.0, backoff=2.0, jitter=0.0), 3.0),
        (Retry(max_attempts=4, delay=1.0, backoff=2.0, max_delay=2.0, jitter=0.0), 5.0),
        (Retry(max_attempts=3, delay=1.0, backoff=2.0, jitter=1.0), 6.0),
        (Retry(max_attempts=1001, delay=DAY, max_delay=DAY, backoff=1.0, jitter=0.0), 1000 * DAY),
    ],
)
def test_the_longest_wait_is_known_beforehand(retry: Retry, longest: float) -> None:
    assert retry.longest_wait() == longest
