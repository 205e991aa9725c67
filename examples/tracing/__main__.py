"""One trace across two workers: the first is killed while the mail service has just accepted, the second goes on.

``python examples/tracing [FOLDER] [--spans]`` starts a stand-in for a collector and two workers as processes of their
own, exports over OTLP and to the console, and draws what the collector got into FOLDER (this one by default); with
``--spans`` it also writes down what that was. Needs the packages of effectlog's ``dev`` extra.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from drawing import draw
from story import trace_once


def main(target: Path, *, keep_spans: bool) -> None:
    spans = trace_once()
    if keep_spans:
        (target / "spans.json").write_text(json.dumps(spans, indent=1), encoding="utf-8")
    for kind in ("svg", "png"):
        draw(spans, target / f"trace.{kind}")
    print(f"{len(spans)} spans of {len({span['trace'] for span in spans})} trace; drawn in {target}")


if __name__ == "__main__":
    folders = [argument for argument in sys.argv[1:] if argument != "--spans"]
    main(Path(folders[0]) if folders else Path(__file__).parent, keep_spans="--spans" in sys.argv)
