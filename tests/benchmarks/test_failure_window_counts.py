"""The danger: an interruption costs a request, an effect or a result more (or less) than the documentation says.

Plays every scenario in every form once, with real processes and real signals, through the command that people use.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.failure_window.judging import counts, judge
from benchmarks.failure_window.scenarios import CASES, Act, Case

ROOT = Path(__file__).parents[2]
STORES = ("sqlite", "postgres")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("failure_window")
    command = [
        sys.executable,
        "-m",
        "benchmarks.failure_window",
        "--quick",
        "--store",
        "both",
        "--out",
        str(folder),
    ]
    played = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert played.returncode == 0, played.stdout + played.stderr
    return folder


@pytest.fixture
def record(out: Path, store: str, case: Case) -> dict[str, Any]:
    path = out / "runs" / store / f"{case.id}-1" / "record.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@pytest.mark.parametrize("store", STORES)
def test_a_scenario_comes_out_as_specified(case: Case, record: dict[str, Any]) -> None:
    assert judge(record, case).wrong == ()
    assert counts(record) == (case.resolved or case.expected)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", STORES)
def test_the_table_and_the_aggregate_tell_what_the_records_hold(out: Path, store: str) -> None:
    aggregate = json.loads((out / "aggregate.json").read_text(encoding="utf-8"))[store]
    assert set(aggregate["cases"]) == {case.id for case in CASES}
    assert aggregate["wrong"] == []
    table = (out / "table.md").read_text(encoding="utf-8")
    assert "2/2 B 3,979 to 4,007 ms" in table
    assert "owner and lease are stored" in table


@pytest.mark.timeout(300)
def test_a_run_is_drawn_as_svg_and_png(out: Path) -> None:
    for name in ("S4-resend-sqlite", "S6-keyed-sqlite"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (out / f"{name}.svg").read_text(encoding="utf-8")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("case", [case for case in CASES if case.id == "S6-keyed"], ids=lambda case: case.id)
def test_a_record_that_went_wrong_is_not_passed_over(case: Case, record: dict[str, Any]) -> None:
    """The judge must be able to say no, or it says nothing."""
    assert case.act is Act.PAUSE
    second = {**record, "effects": record["effects"] * 2}
    assert judge(second, case).wrong == ("2/2 instead of 2/1",)
    overwritten = {**record, "result": {**record["result"], "by": "A"}}
    assert any("stored result is A's" in what for what in judge(overwritten, case).wrong)
    paused = [{**r, "lease_expires": 1e9} if r["when"] == "paused" else r for r in record["persisted"]]
    assert any("a lease that ended at" in what for what in judge({**record, "persisted": paused}, case).wrong)
    forgotten = {**record, "journal": {**record["journal"], "evidence": None}}
    assert any("not kept as evidence" in what for what in judge(forgotten, case).wrong)
