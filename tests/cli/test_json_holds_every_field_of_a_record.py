"""Danger: a program that reads ``--json`` misses a field, or the command fails on a value JSON can't hold."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
import shop_app

from effectlog import AttemptRecord, EffectRecord, ErrorInfo, RunRecord, RunSummary
from effectlog.cli.json_output import dumps, jsonable
from effectlog.runs.records import Unreadable


def names(record: type) -> list[str]:
    return [field.name for field in fields(record)]


async def test_runs_attempts_effects_and_errors_field_by_field(terminal):
    async with terminal.log() as log, log.worker():
        run = await log.enqueue(shop_app.sell, "A-1")
        with pytest.raises(Exception, match="held"):
            await run.result(timeout=20)
    (listed,) = terminal.inside("runs", "--state", "held", "--task", "shop_app.sell", "--json").json
    shown = terminal.inside("show", run.id, "--json").json
    assert list(listed) == names(RunSummary)
    assert set(names(RunRecord)) - set(names(RunSummary)) == {"args", "attempts", "effects", "result"}
    assert listed.items() <= shown.items()
    assert list(shown) == names(RunRecord)
    assert list(shown["attempts"][0]) == names(AttemptRecord)
    assert list(shown["effects"][0]) == names(EffectRecord)
    assert list(shown["effects"][0]["error"]) == names(ErrorInfo)
    assert (shown["id"], shown["state"], shown["args"]) == (run.id, "held", {"order": "A-1"})
    created = datetime.fromisoformat(listed["created_at"])
    assert created.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - created) < timedelta(minutes=5)
    assert terminal.inside("runs", "--state", "failed", "--json").json == []


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    at: datetime


EAST = timezone(timedelta(hours=2))
VALUES: list[tuple[Any, Any]] = [
    (datetime(2026, 11, 2, 12, tzinfo=EAST), "2026-11-02T10:00:00Z"),
    (datetime.fromisoformat("2026-11-02T12:00:00"), "2026-11-02T12:00:00"),
    (date(2026, 11, 2), "2026-11-02"),
    (Decimal("19.90"), "19.90"),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Colour.RED, "red"),
    (b"\x00\xff", "base64:AP8="),
    (float("nan"), "nan"),
    (float("-inf"), "-inf"),
    (1.5, 1.5),
    (True, True),
    (10**20, 10**20),
    ((1, (2,)), [1, [2]]),
    ({3}, [3]),
    ({1: "a", (1, 2): "b", None: "c"}, {"1": "a", "[1, 2]": "b", "null": "c"}),
    ({"p": Point(1, datetime(2026, 1, 1, tzinfo=UTC))}, {"p": {"x": 1, "at": "2026-01-01T00:00:00Z"}}),
    (Unreadable("why", '{"!":"object","c":"a:B","v":{"x":{"!":"tuple","v":[1]}}}'), {"x": [1]}),
    (Unreadable("why", '{"!":"dict","v":[[{"!":"decimal","v":"1"},2]]}'), {"1": 2}),
    (Unreadable("why", "pickle?"), {"unreadable": "why", "stored": "pickle?"}),
]


@pytest.mark.parametrize(("value", "expected"), VALUES, ids=lambda part: repr(part)[:40])
def test_every_value_has_a_readable_form(value, expected):
    assert jsonable(value) == expected
    assert json.loads(dumps(value)) == expected


def test_an_integer_too_long_for_decimal_and_a_lone_surrogate_are_no_failure():
    assert json.loads(dumps([10**6000, "\ud800"])) == [hex(10**6000), "\ud800"]
