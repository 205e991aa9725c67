"""Danger: whoever lists runs, or does something to all of them, reads gigabytes of values that nobody looks at."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from effectlog import EffectLog, Retry, RunSummary, durable_task, effect
from effectlog.cli.main import command_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RUNS = 6
SIZE = 900_000


@effect(key="copy")
def copy(text: str) -> str:
    return text


@durable_task(name="lists.large")
def large(text: str) -> str:
    return copy(text)


@durable_task(name="lists.small")
def small(text: str) -> int:
    return len(copy(text))


@durable_task(name="lists.fails", retry=Retry(max_attempts=1))
def fails(text: str) -> str:
    copy(text)
    raise RuntimeError("with everything that it has")


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Runs whose arguments, results and effects are large: some succeeded, some failed, some pending."""
    url = str(tmp_path / "runs.db")
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_database")
    with EffectLog(url) as log:
        for n in range(RUNS):
            log.sync.run(large, chr(97 + n) * SIZE)
            with pytest.raises(Exception, match="with everything"):
                log.sync.run(fails, chr(97 + n) * SIZE)
            log.sync.enqueue(large.with_options(delay=3600), chr(97 + n) * SIZE)
    return url


def peak(call: Callable[[], Any]) -> int:
    """Bytes that Python held at most beyond those it held before."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def command(*arguments: str, status: int = 0) -> Callable[[], Any]:
    def call() -> None:
        done = CliRunner().invoke(command_line, arguments)
        assert done.exit_code == status, done.output

    return call


def test_lists_and_bulk_actions_hold_no_value(store_url: str) -> None:
    at = ("--store", store_url)
    assert CliRunner().invoke(command_line, ("runs", *at)).exit_code == 0  # Imported and warm.
    calls: dict[str, Callable[[], Any]] = {
        "runs": command("runs", *at),
        "runs --json": command("runs", "--json", *at),
        "doctor": command("doctor", *at, status=1),  # It counts the dead letters.
        "retry --state": command("retry", "--state", "failed", *at),
        "cancel --state": command("cancel", "--state", "pending", *at),
    }
    peaks = {name: peak(call) for name, call in calls.items()}
    with EffectLog(store_url) as log:
        peaks["list_runs"] = peak(log.sync.list_runs)
        peaks["retry_runs"] = peak(lambda: log.sync.retry_runs(state="cancelled"))
        peaks["cancel_runs"] = peak(lambda: log.sync.cancel_runs(state="pending"))
        found = log.sync.list_runs()
        assert len(log.sync.list_runs(state="cancelled")) == 2 * RUNS, "the bulk actions reached nobody"
        record = log.sync.get_run(found[-1].id).record()
    print({name: f"{most / 1e6:.1f} MB" for name, most in peaks.items()})
    assert {name: most for name, most in peaks.items() if most > SIZE} == {}
    assert len(found) == 3 * RUNS
    assert {type(run) for run in found} == {RunSummary}
    assert record.result == record.args["text"] == record.effects[0].result == "a" * SIZE
    assert isinstance(record, RunSummary)


def test_whoever_waits_for_a_result_reads_nothing_else(store_url: str) -> None:
    with EffectLog(store_url) as log:
        run = log.sync.enqueue(small.with_options(idempotency_key="small"), "a" * SIZE)
        with log.sync.worker():
            assert run.result(timeout=30) == SIZE
        calls: dict[str, Callable[[], Any]] = {
            "get_run": lambda: log.sync.get_run(run.id),
            "result": lambda: log.sync.get_run(run.id).result(timeout=30),
        }
        peaks = {name: peak(call) for name, call in calls.items()}
        assert {name: most for name, most in peaks.items() if most > SIZE / 2} == {}
        assert log.sync.get_run(run.id).result() == SIZE
