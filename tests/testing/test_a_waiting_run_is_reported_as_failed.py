"""Danger: a test helper waits for an hour, or calls a run failed that merely waits for its time."""

from __future__ import annotations

import time

import pytest

from effectlog import Retry, RunState, durable_task, effect, operation_id
from effectlog.testing import CountingDestination, crash_matrix
from effectlog.testing.destinations import send

TOO_LONG = 20.0


@effect(key="only")
def only(url: str) -> None:
    send(url, {"operation": "only"}, key=operation_id())


@durable_task(retry=Retry(delay=3600.0))
def fails_at_first(url: str) -> None:
    only(url)
    raise ConnectionError("not yet")


def test_a_run_that_waits_is_reported_as_waiting() -> None:
    began = time.monotonic()
    with CountingDestination("replay") as destination:
        report = crash_matrix(fails_at_first, destination.url, faults=())
    assert time.monotonic() - began < TOO_LONG
    (result,) = report.results
    assert result.state is RunState.PENDING
    assert "waits until" in str(report)
    assert "run ended" not in str(report)
    with pytest.raises(AssertionError, match="shorter delay"):
        report.raise_if_unsafe()
