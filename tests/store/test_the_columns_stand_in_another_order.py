"""Danger: a statement lists columns in another order than the function that reads them, and values change places."""

from __future__ import annotations

from typing import Any

import pytest

from effectlog.model import AttemptOutcome, EffectState, ErrorInfo, Policy, RunState
from effectlog.store import columns
from effectlog.store.rows import EffectRow, RequestClock, RunRow
from effectlog.store.statements import columns_in

DIALECTS = ("sqlite", "postgres")
ERROR = {"error_type": "E", "error_message": "why", "error_traceback": "where"}
RUN: dict[str, Any] = {
    "id": "r1", "task": "t", "state": "pending", "due_at": 1.5, "attempt": 2, "attempt_outcome": "expired",
    "owner": "o", "lease_expires": 3.5, "lease_clock": "boot", "releasing": 1, "errors": 4, "crashes": 5,
    "cancel_requested": 0, "finished_at": 6.5, "waits_since": 7.5,
} | ERROR  # fmt: skip
EFFECT: dict[str, Any] = {
    "run_id": "r1", "effect_key": "k", "name": "n", "operation_id": "op", "fingerprints": '{"a":"b"}',
    "policy": "hold", "state": "failed", "version": 1, "generation": 2, "requests": 3, "open_requests": 0,
    "executing": "[4]", "attempt": 5, "first_wall": 6.5, "first_boot": 7.5, "first_boot_id": "boot", "started_at": 8.5,
    "finished_at": 9.5, "final": True, "result": None, "result_error": None, "destination": "d", "resolved_by": "me",
    "evidence": "seen", "late_result": b"late", "late_attempt": 10,
} | ERROR  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_run_is_read_in_the_order_of_its_statement(dialect: str) -> None:
    listed = columns_in(dialect, "run_columns")
    assert columns.run_from([RUN[column] for column in listed]) == RunRow(
        id="r1",
        task="t",
        state=RunState.PENDING,
        due_at=1.5,
        attempt=2,
        attempt_outcome=AttemptOutcome.EXPIRED,
        owner="o",
        lease_expires=3.5,
        lease_clock="boot",
        releasing=True,
        errors=4,
        crashes=5,
        cancel_requested=False,
        finished_at=6.5,
        error=ErrorInfo("E", "why", "where"),
        waits_since=7.5 if "waits_since" in listed else None,
    )


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_effect_is_read_and_written_in_the_order_of_its_statement(dialect: str) -> None:
    row = [EFFECT[column] for column in columns_in(dialect, "effect_columns")]
    effect = columns.effect_from(row)
    assert effect == EffectRow(
        run_id="r1",
        key="k",
        name="n",
        operation_id="op",
        fingerprints={"a": "b"},
        policy=Policy.HOLD,
        state=EffectState.FAILED,
        version=1,
        generation=2,
        requests=3,
        open_requests=0,
        executing=(4,),
        attempt=5,
        first_request=RequestClock(6.5, 7.5, "boot"),
        started_at=8.5,
        finished_at=9.5,
        final=True,
        error=ErrorInfo("E", "why", "where"),
        destination="d",
        resolved_by="me",
        evidence="seen",
        late_result=b"late",
        late_attempt=10,
    )
    assert list(columns.effect_columns(effect)) == row


def test_both_dialects_list_an_effect_alike() -> None:
    assert columns_in("sqlite", "effect_columns") == columns_in("postgres", "effect_columns")
