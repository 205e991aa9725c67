"""How the demo's processes tell it what happens: one JSON line an event on standard output. Leaf module."""

from __future__ import annotations

import json
import sys
import time


def tell(event: str, **facts: object) -> None:
    """Say what happens now, by the clock that all processes of the machine share."""
    line = json.dumps({"event": event, "at": time.monotonic(), **facts})
    # One write, so that lines of several threads don't mix.
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
