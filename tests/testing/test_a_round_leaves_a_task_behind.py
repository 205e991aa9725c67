"""Danger: a matrix of a task that branches differently each time ends in asyncio's complaints about leftovers."""

import gc
import itertools

import pytest

from effectlog import durable_task, effect
from effectlog.testing import crash_matrix

executions = itertools.count()


@effect(key="now and then")
def now_and_then() -> None: ...


@durable_task
def branches() -> None:
    gc.collect()  # What the round before left behind is told of now.
    if next(executions) == 0:
        now_and_then()


def test_a_boundary_that_is_not_reached_again_leaves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    report = crash_matrix(branches, faults=("stale owner",))
    gc.collect()
    assert any(result.fault.startswith("stale owner") for result in report.results)
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
