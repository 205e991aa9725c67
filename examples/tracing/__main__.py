"""One trace across two workers: the first is killed while the mail service has just accepted, the second goes on.

``python examples/tracing [FOLDER]`` starts a stand-in for a collector and two workers as processes of their own,
exports over OTLP and to the console, and draws what the collector got into FOLDER (this one by default).
Needs the packages of effectlog's ``dev`` extra.
"""

from __future__ import annotations

import sys
from pathlib import Path

from drawing import draw
from story import trace_once


def main(target: Path) -> None:
    spans = trace_once()
    for kind in ("svg", "png"):
        draw(spans, target / f"trace.{kind}")
    print(f"{len(spans)} spans of {len({span['trace'] for span in spans})} trace; drawn in {target}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
