"""Draws collected spans as one trace: a row each, in the order of the tree, with the process named at its side.

Readable in black and white: processes differ by the bar's fill, lost spans by a dashed outline; events are written
to the left of their span.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

Rows = list[tuple[int, dict[str, Any]]]
"""Depth and span, from top to bottom."""

_FILLS = {"shop": ("white", ""), "worker A": ("#d0d0d0", "////"), "worker B": ("#8a8a8a", "")}
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 8.5,
    "hatch.linewidth": 0.5,
    "svg.hashsalt": "effectlog",
}


def with_lost(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The spans, and what others tell of those that were lost with their process."""
    known = {span["id"] for span in spans}
    lost: dict[str, dict[str, Any]] = {}
    for span in spans:
        for link in span["links"]:
            if link["id"] not in known and link["attributes"].get("effectlog.outcome") == "expired":
                lost[link["id"]] = _lost(span, link, spans)
    return [*spans, *lost.values(), *_lost_between(spans, list(lost.values()))]


def _lost_between(spans: list[dict[str, Any]], attempts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Requests that were lost with their attempt: all that is left are the spans inside."""
    known = {span["id"] for span in [*spans, *attempts]}
    return [
        {**_bare(span["parent"], "effect (span lost)", span["service"]), "parent": attempt["id"]}
        | {"start": span["start"] - 0.001, "end": attempt["end"]}
        for span in spans
        for attempt in attempts
        if span["parent"] not in {None, *known} and span["service"] == attempt["service"]
    ]


def _bare(span_id: str, name: str, service: str) -> dict[str, Any]:
    return {"id": span_id, "name": name, "service": service, "attributes": {}, "events": [], "lost": True}


def _lost(teller: dict[str, Any], link: dict[str, Any], spans: list[dict[str, Any]]) -> dict[str, Any]:
    children = [span for span in spans if span["parent"] == link["id"]]
    start = min((span["start"] for span in children), default=teller["start"])
    number = link["attributes"]["effectlog.attempt"]
    service = children[0]["service"] if children else "?"
    bare = _bare(link["id"], f"{teller['name']} #{number} (span lost)", service)
    return bare | {"parent": teller["parent"], "start": start - 0.004, "end": teller["start"]}


def tree(spans: list[dict[str, Any]]) -> Rows:
    """Rows from the root down, children by their start."""
    known = {span["id"] for span in spans}
    rows: Rows = []

    def add(parent: str | None, depth: int) -> None:
        found = [s for s in spans if s["parent"] == parent or (parent is None and s["parent"] not in known)]
        for span in sorted(found, key=lambda span: span["start"]):
            rows.append((depth, span))
            add(span["id"], depth + 1)

    add(None, 0)
    return rows


def draw(spans: list[dict[str, Any]], target: Path) -> None:
    """Draw into a file; its ending says as what."""
    rows = tree(with_lost(spans))
    begin = min(span["start"] for _, span in rows)
    end = max(span["end"] for _, span in rows)
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(figsize=(11, 0.36 * len(rows) + 1.6))
        for row, (depth, span) in enumerate(rows):
            _draw_row(axes, -row, depth, span, begin, end - begin)
        _dress(axes, len(rows), end - begin)
        metadata = {"Date": None} if target.suffix == ".svg" else None
        figure.savefig(target, dpi=140, bbox_inches="tight", metadata=metadata)
        plt.close(figure)


def _draw_row(axes: Axes, y: float, depth: int, span: dict[str, Any], begin: float, whole: float) -> None:
    fill, hatch = _FILLS.get(span["service"], ("white", "..."))
    lost = span.get("lost", False)
    left, width = span["start"] - begin, max(span["end"] - span["start"], whole / 400)
    axes.add_patch(
        Rectangle(
            (left, y - 0.3),
            width,
            0.6,
            facecolor="white" if lost else fill,
            hatch=hatch,
            edgecolor="black",
            linewidth=0.9,
            linestyle="--" if lost else "-",
        )
    )
    attempt = span["attributes"].get("effectlog.attempt")
    number = f" #{attempt}" if attempt and span["name"].startswith("attempt") and not lost else ""
    axes.text(-0.36 * whole, y, f"{'    ' * depth}{span['name']}{number}", va="center")
    axes.text(1.02 * whole, y, span["service"], va="center")
    events = " · ".join(event["name"] for event in span["events"])
    axes.text(left - 0.01 * whole, y, events, va="center", ha="right", fontstyle="italic")


def _dress(axes: Axes, rows: int, whole: float) -> None:
    for service, (fill, hatch) in _FILLS.items():
        axes.add_patch(Rectangle((0, 9), 0, 0, facecolor=fill, hatch=hatch, edgecolor="black", label=service))
    axes.add_patch(
        Rectangle(
            (0, 9),
            0,
            0,
            facecolor="white",
            hatch="////",
            edgecolor="black",
            linestyle="--",
            label="lost with its process",
        )
    )
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.55 / (0.36 * rows + 1)), ncols=4, frameon=False)
    axes.set(xlim=(-0.37 * whole, 1.12 * whole), ylim=(-rows + 0.4, 0.6), yticks=[])
    axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= whole])
    axes.set_xlabel("seconds since the order came in")
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
