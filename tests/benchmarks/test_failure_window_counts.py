"""The danger: an interruption costs a request, an effect or a result more (or less) than the documentation says.

Plays every scenario in every form once, with real processes and real signals, through the command that people use. On
PostgreSQL, where each takes a second, those in which an owner dies or sleeps in its effect; all of them are ``long``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.failure_window.judging import counts, judge
from benchmarks.failure_window.scenarios import CASES, Act, Case

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
ALL = tuple(dict.fromkeys(case.row for case in CASES))
SOME = ("S3b", "S4", "S5", "S6")

pytestmark = [pytest.mark.timeout(600), pytest.mark.paced]


def stores(case: Case) -> list[Any]:
    rest = [] if case.row in SOME else [pytest.mark.long]
    return [
        pytest.param("sqlite", case, ALL, id=f"sqlite-{case.id}"),
        pytest.param("postgres", case, ALL if rest else SOME, id=f"postgres-{case.id}", marks=rest),
    ]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Plays what a test asks for, each once; the folder with what came of it."""

    @cache
    def play(store: str, rows: tuple[str, ...]) -> Path:
        folder = tmp_path_factory.mktemp("failure_window")
        options = ["--quick", "--store", store, "--out", str(folder), "--only", *rows]
        command = [sys.executable, "-m", "benchmarks.failure_window", *options]
        done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stdout + done.stderr
        return folder

    return play


@pytest.fixture
def record(played: Callable[..., Path], store: str, case: Case, rows: tuple[str, ...]) -> dict[str, Any]:
    path = played(store, rows) / "runs" / store / f"{case.id}-1" / "record.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize(("store", "case", "rows"), [each for case in CASES for each in stores(case)])
def test_a_scenario_comes_out_as_specified(case: Case, record: dict[str, Any]) -> None:
    assert judge(record, case).wrong == ()
    assert counts(record) == (case.resolved or case.expected)


@pytest.mark.parametrize(
    ("store", "rows"),
    [("sqlite", ALL), ("postgres", SOME), pytest.param("postgres", ALL, marks=pytest.mark.long)],
    ids=["sqlite", "postgres", "postgres, all"],
)
def test_the_table_and_the_aggregate_tell_what_the_records_hold(
    played: Callable[..., Path], store: str, rows: tuple[str, ...]
) -> None:
    out = played(store, rows)
    aggregate = json.loads((out / "aggregate.json").read_text(encoding="utf-8"))[store]
    assert set(aggregate["cases"]) == {case.id for case in CASES if case.row in rows}
    assert aggregate["wrong"] == []
    table = (out / "table.md").read_text(encoding="utf-8")
    assert "2/2 B 3,979 to 4,007 ms" in table
    assert ("owner and lease are stored" in table) is (rows == ALL)


def test_a_run_is_drawn_as_svg_and_png(played: Callable[..., Path]) -> None:
    out = played("sqlite", ALL)
    for name in ("S4-resend-sqlite", "S6-keyed-sqlite"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (out / f"{name}.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("store", "case", "rows"), [each for case in CASES if case.id == "S6-keyed" for each in stores(case)]
)
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
