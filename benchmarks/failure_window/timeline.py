"""Draws one run: workers as lanes, the destination below them, time to the right.

Readable in black and white.

Everything is taken from the run's record; shapes, fills and words tell things apart, never colour alone.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from benchmarks.failure_window.scenarios import TITLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes

_LANES = {"A": 2.0, "B": 1.0, "destination": 0.0}
_ATTEMPT, _LEASE = 0.20, 0.11
"""Heights of the two bars of a lane: the attempt, and the lease beneath it."""
_INK = "#111111"
_HEADING: dict[str, Any] = {"fontweight": "bold", "fontsize": 11}
_BOLD: dict[str, Any] = {"fontweight": "bold", "fontsize": 8.5}
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9,
    "hatch.linewidth": 0.5,
    "svg.hashsalt": "effectlog",
}


@dataclass(frozen=True, slots=True)
class _Bar:
    lane: float
    begin: float
    end: float
    label: str = ""


def draw(record: dict[str, Any], paths: Iterable[Path]) -> None:
    """Draw a record into every path; the suffix (``.svg``, ``.png``) chooses the format."""
    with mpl.rc_context(_STYLE):
        figure, axes = plt.subplots(figsize=(9.6, 4.0), layout="constrained")
        begin, end = _span(record)
        _frame(axes, record, begin, end)
        _leases(axes, record)
        _attempts(axes, record, end)
        _exchanges(axes, record)
        _interruptions(axes, record)
        _pause(axes, record)
        _takeover(axes, record)
        axes.legend(
            handles=_legend(), loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=4, frameon=False
        )
        for path in paths:
            metadata = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, dpi=170, metadata=metadata)
        plt.close(figure)


def _span(record: dict[str, Any]) -> tuple[float, float]:
    begin = record["attempts"][0]["started"]
    ends = [attempt["ended"] or 0.0 for attempt in record["attempts"]]
    late = [e["at"] for e in record["events"] if e["event"] in ("waited", "SIGCONT")]
    return begin, max(*ends, *late, begin)


def _frame(axes: Axes, record: dict[str, Any], begin: float, end: float) -> None:
    requests, effects, attempts = (len(record[name]) for name in ("requests", "effects", "attempts"))
    room = (end - begin) * 0.06
    axes.set_xlim(begin - room, end + room * (2.6 if record["journal"]["evidence"] else 1.6))
    axes.set_ylim(-0.55, 2.75)
    axes.set_yticks(list(_LANES.values()), ["worker A", "worker B", "destination"])
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("milliseconds from the start of the run")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    for lane in _LANES.values():
        axes.axhline(lane, color="#bbbbbb", linewidth=0.6, zorder=0)
    result = (record["result"] or {}).get("by", "nobody")
    counted = (
        f"attempts {attempts} · requests {requests} · accepted effects {effects} · stored result by {result}"
    )
    axes.set_title(f"{record['form']}: {counted}", loc="left", fontsize=9)
    axes.text(
        0,
        1.11,
        f"{record['row']}: {TITLES[record['row']].replace('*', '')}",
        transform=axes.transAxes,
        **_HEADING,
    )


# --- bars ----------------------------------------------------------------------------------------


def _attempts(axes: Axes, record: dict[str, Any], end: float) -> None:
    stopped = {e["to"]: e["at"] for e in record["events"] if e["event"] in ("SIGKILL", "SIGSTOP")}
    for attempt in record["attempts"]:
        lane, until = _LANES[attempt["worker"]], attempt["ended"] or end
        if attempt["number"] == 1:
            until = stopped.get(attempt["worker"], until)
        box = Rectangle(
            (attempt["started"], lane),
            until - attempt["started"],
            _ATTEMPT,
            facecolor="white",
            edgecolor=_INK,
            lw=1.1,
        )
        axes.add_patch(box)
        words = f"attempt {attempt['number']}"
        axes.text(attempt["started"], lane + _ATTEMPT + 0.05, words, ha="left", va="bottom", fontsize=8)


def _leases(axes: Axes, record: dict[str, Any]) -> None:
    """What was in force, filled; what the store had still promised to an owner that was gone, outlined."""
    for bar, in_force in _lease_bars(record):
        look: dict[str, Any] = {"facecolor": "#8c8c8c", "edgecolor": _INK, "lw": 0.6}
        if not in_force:
            look = {
                "facecolor": "white",
                "edgecolor": "#555555",
                "hatch": "////",
                "lw": 0.6,
                "linestyle": "--",
            }
        size = (bar.end - bar.begin, _LEASE)
        axes.add_patch(Rectangle((bar.begin, bar.lane - _LEASE - 0.03), *size, **look))


def _lease_bars(record: dict[str, Any]) -> list[tuple[_Bar, bool]]:
    expires = {
        (r["owner"]): r["lease_expires"] for r in record["persisted"] if r["owner"] and r["lease_expires"]
    }
    bars: list[tuple[_Bar, bool]] = []
    for attempt in record["attempts"]:
        owner = attempt["worker"]
        if owner not in expires:
            continue
        lane, ended = _LANES[owner], attempt["ended"]
        lapsed = attempt["outcome"] == "expired" and attempt["number"] == 1
        bars.append((_Bar(lane, attempt["started"], ended), True))
        if lapsed and expires[owner] > ended:
            bars.append((_Bar(lane, ended, expires[owner]), False))
    return bars


# --- moments -------------------------------------------------------------------------------------


def _exchanges(axes: Axes, record: dict[str, Any]) -> None:
    """Each request as an arrow down to the destination, and what became of it there."""
    sent = [e for e in record["events"] if e["event"] == "request"]
    numbered = 0
    for event, request in zip(sent, record["requests"], strict=False):
        top = _LANES[event["who"]]
        arrow = {"arrowstyle": "-|>", "color": _INK, "lw": 1.0, "shrinkA": 0, "shrinkB": 4}
        axes.annotate("", (request["at"], 0.0), (event["at"], top), arrowprops=arrow)
        accepted = request["outcome"] == "accepted"
        numbered += accepted
        axes.plot(
            request["at"], 0.0, "o", ms=9, mfc=_INK if accepted else "white", mec=_INK, mew=1.3, zorder=5
        )
        words = f"accepted:\neffect {numbered}" if accepted else "duplicate:\nno effect"
        axes.text(request["at"], -0.17, words, ha=_side(axes, record, request), va="top", fontsize=8)


def _side(axes: Axes, record: dict[str, Any], request: dict[str, Any]) -> Literal["left", "center", "right"]:
    """Where a request's words go: under it, or aside where the other one's are in the way."""
    begin, end = axes.get_xlim()
    others = [r["at"] - request["at"] for r in record["requests"] if r is not request]
    near = [gap for gap in others if abs(gap) < 0.09 * (end - begin)]
    return "center" if not near else "right" if near[0] > 0 else "left"


_SIGNS = {
    "SIGKILL": ("X", "SIGKILL"),
    "SIGSTOP": ("s", "SIGSTOP"),
    "SIGCONT": (">", "SIGCONT"),
    "SIGINT": ("v", "release"),
}


def _interruptions(axes: Axes, record: dict[str, Any]) -> None:
    for event in record["events"]:
        if event["event"] in _SIGNS:
            marker, words = _SIGNS[event["event"]]
            lane = _LANES[event["to"]]
            axes.plot(
                event["at"], lane + _ATTEMPT / 2, marker, ms=10, mfc="white", mec=_INK, mew=1.4, zorder=6
            )
            axes.text(event["at"], lane + 0.46, words, ha="center", va="bottom", **_BOLD)


def _pause(axes: Axes, record: dict[str, Any]) -> None:
    """How long A stood still, and what became of what it brought back."""
    at = {e["event"]: e["at"] for e in record["events"] if e.get("to") == "A" or e["who"] == "A"}
    if "SIGSTOP" not in at:
        return
    lane, width = _LANES["A"], at["SIGCONT"] - at["SIGSTOP"]
    look: dict[str, Any] = {"facecolor": "none", "edgecolor": _INK, "lw": 0.8, "linestyle": (0, (1, 3))}
    axes.add_patch(Rectangle((at["SIGSTOP"], lane), width, _ATTEMPT, **look))
    axes.text(
        at["SIGSTOP"] + width / 2, lane + _ATTEMPT / 2, "stands still", ha="center", va="center", fontsize=8
    )
    if record["journal"]["evidence"]:
        words = "its outcome is late:\nkept as evidence,\nits result refused"
        axes.text(at["SIGCONT"], lane - 0.1, words, ha="left", va="top", fontsize=8)


def _takeover(axes: Axes, record: dict[str, Any]) -> None:
    """From the interruption to the next attempt: how long nobody worked."""
    begun = next((e["at"] for e in record["events"] if e["event"] == "begun" and e["who"] == "B"), None)
    since = record["interrupted"]
    if begun is None or since is None:
        return
    axes.vlines([since, begun], 1.48, 2.0, color=_INK, lw=0.8, linestyle=":")
    axes.annotate("", (begun, 1.56), (since, 1.56), arrowprops={"arrowstyle": "->", "color": _INK, "lw": 0.9})
    words = f"takeover {begun - since:,.0f} ms"
    axes.text(max(begun, since), 1.56, f"   {words}", ha="left", va="center", **_BOLD)


def _legend() -> list[Patch | Line2D]:
    def dot(fill: str, label: str) -> Line2D:
        return Line2D([], [], marker="o", ls="", ms=7, mfc=fill, mec=_INK, label=label)

    return [
        Patch(facecolor="white", edgecolor=_INK, label="attempt"),
        Patch(facecolor="#8c8c8c", edgecolor=_INK, label="lease in force"),
        Patch(facecolor="white", edgecolor="#555555", hatch="////", ls="--", label="lease of a dead owner"),
        Line2D([], [], color=_INK, marker=">", ms=5, lw=1, label="request"),
        dot(_INK, "accepted: an effect"),
        dot("white", "recognised: no effect"),
    ]


if __name__ == "__main__":
    source = Path(sys.argv[1])
    draw(json.loads(source.read_text(encoding="utf-8")), [Path(name) for name in sys.argv[2:]])
