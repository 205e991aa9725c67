"""Reads the records that the runs left behind: one aggregate, one table, one picture a scenario.

Works on a folder alone (``python -m benchmarks.failure_window.analyzer DIR``), so that what is claimed can
be judged anew from what was recorded.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.failure_window.judging import as_json, counts, judge
from benchmarks.failure_window.scenarios import CASES, STATED, TITLES, Case, Form, Stated

if TYPE_CHECKING:
    from collections.abc import Iterator

_DRAWN = ("S4-resend", "S6-keyed")
"""Drawn without being asked; ``python -m benchmarks.failure_window.timeline RECORD PICTURE…`` draws any."""


def report(out: Path, *, strict: bool = False) -> int:
    """Write ``aggregate.json``, ``table.md`` and the timelines; print the table.

    1 if anything was wrong; with ``strict`` also if a takeover was slower than aimed at.
    """
    records = _records(out)
    aggregate = {store: _aggregate(store, records) for store in sorted({r["store"] for r in records})}
    (out / "aggregate.json").write_text(
        json.dumps(aggregate, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    table = "\n".join(line for store in aggregate.values() for line in _table(store))
    (out / "table.md").write_text(table + "\n", encoding="utf-8")
    _draw(out, records)
    print(table)
    print(f"\nRecords, aggregate, table and timelines: {out}")
    return 1 if any(store["wrong"] or (strict and store["late"]) for store in aggregate.values()) else 0


def _records(out: Path) -> list[dict[str, Any]]:
    paths = sorted(out.glob("runs/*/*/record.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def _draw(out: Path, records: list[dict[str, Any]]) -> None:
    from benchmarks.failure_window.timeline import draw  # noqa: PLC0415 - the plotting library is slow to import

    for record in records:
        if record["repetition"] == 1 and record["case"] in _DRAWN and "failed" not in record:
            name = f"{record['case']}-{record['store']}"
            draw(record, [out / f"{name}.svg", out / f"{name}.png"])


# --- the aggregate -------------------------------------------------------------------------------


def _aggregate(store: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    cases = {}
    for case in CASES:
        mine = [r for r in records if r["store"] == store and r["case"] == case.id]
        if mine:
            cases[case.id] = _case_summary(case, mine)
    wrong = [f"{name}: {what}" for name, case in cases.items() for what in case["wrong"]]
    late = [f"{name}: {what}" for name, case in cases.items() for what in case["late"]]
    return {"store": store, "cases": cases, "wrong": wrong, "late": late}


def _case_summary(case: Case, records: list[dict[str, Any]]) -> dict[str, Any]:
    judgements = [judge(record, case) for record in records]
    played = [record for record in records if "failed" not in record]
    seen = sorted({_seen(record) for record in played})
    return {
        "row": case.row,
        "title": TITLES[case.row],
        "form": case.form.value,
        "runs": len(records),
        "expected": _expected(case),
        "seen": seen,
        "attempts": sorted({len(record["attempts"]) for record in played}),
        "takeover_ms": _spread([j.takeover for j in judgements]),
        "after_expiry_ms": _spread([j.after_expiry for j in judgements]),
        "refused_at_open": sorted({(r["refused_at_open"] or {}).get("guarantee", "") for r in played} - {""}),
        "wrong": [what for judgement in judgements for what in judgement.wrong],
        "late": [what for judgement in judgements for what in judgement.late],
        "each": [as_json(judgement) for judgement in judgements],
    }


def _seen(record: dict[str, Any]) -> str:
    by = (record["result"] or {}).get("by", "nobody")
    held = record["held"]
    if held is None:
        return f"{counts(record)} {by}"
    return f"{held['requests']}/{held['effects']} held, then {counts(record)} {by}"


def _expected(case: Case) -> str:
    if not case.held:
        return f"{case.expected} {case.by}"
    return f"{case.expected} held, then {case.resolved or case.expected} {' or '.join(case.by)}"


def _spread(values: list[float | None]) -> list[float] | None:
    """Least, median and greatest, in whole milliseconds."""
    known = [value for value in values if value is not None]
    return [round(min(known)), round(median(known)), round(max(known))] if known else None


# --- the table -----------------------------------------------------------------------------------


def _table(aggregate: dict[str, Any]) -> Iterator[str]:
    cases = aggregate["cases"]
    runs = sum(case["runs"] for case in cases.values())
    yield f"### Failure window on {aggregate['store']}: {runs} runs\n"
    yield "Requests/accepted effects and whose result is stored. Takeover: milliseconds from the interruption to B's begin, median and range."
    yield "The last column is what the article's text states of its own system; a dash where it states nothing.\n"
    forms = " | ".join(form.value for form in Form)
    yield f"| | scenario | {forms} | takeover, ms | article |"
    yield "|---|---|" + "---|" * (len(Form) + 2)
    for row, title in TITLES.items():
        mine = [case for case in cases.values() if case["row"] == row]
        if mine:
            yield f"| {row} | {title} | {' | '.join(_cells(mine))} | {_takeovers(mine)} | {_stated(row)} |"
    yield ""
    yield from _remarks(aggregate)


def _cells(cases: list[dict[str, Any]]) -> Iterator[str]:
    by_form = {case["form"]: case for case in cases}
    for form in Form:
        case = by_form.get(form.value)
        yield (
            "-"
            if case is None
            else "; ".join(case["seen"] or ["not played"]) + (" **WRONG**" if case["wrong"] else "")
        )


def _takeovers(cases: list[dict[str, Any]]) -> str:
    each = [run for case in cases for run in case["each"]]
    took = _spread([run["takeover"] for run in each])
    expired = _spread([run["after_expiry"] for run in each])
    if took is None:
        return "none"
    return _median(took) + (f"; after expiry {_median(expired)}" if expired else "")


def _median(spread: list[float]) -> str:
    least, middle, most = spread
    return f"{middle:,} ({least:,} to {most:,})"


def _stated(row: str) -> str:
    stated = STATED.get(row, Stated())
    parts = [str(stated.counts) if stated.counts else "", stated.by, stated.takeover]
    return " ".join(part for part in parts if part) or "-"


def _remarks(aggregate: dict[str, Any]) -> Iterator[str]:
    refused = {g for case in aggregate["cases"].values() for g in case["refused_at_open"]}
    if refused:
        yield f"P1 to P3: at open the store is refused: it does not guarantee that {', '.join(sorted(refused))}. The rows are "
        yield "what happens with the check switched off.\n"
    for what in aggregate["wrong"]:
        yield f"- WRONG {what}"
    for what in aggregate["late"]:
        yield f"- slower than aimed at: {what}"
    if not aggregate["wrong"]:
        yield "Every count, owner and result as specified; no takeover before the recorded expiry."


if __name__ == "__main__":
    sys.exit(report(Path(sys.argv[1])))
