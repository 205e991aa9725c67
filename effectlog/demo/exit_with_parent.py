"""Ends a process of the demo when the demo itself is gone, however it went.

Import it to be on the leash: standard input is a pipe from the demo, and its end is the demo's end.
"""

from __future__ import annotations

import os
import sys
import threading


def _wait_for_the_end() -> None:
    # The file descriptor itself: a thread inside the buffered reader would disturb the interpreter's exit.
    while os.read(descriptor, 1):
        pass
    os._exit(1)


descriptor = sys.stdin.fileno()
threading.Thread(target=_wait_for_the_end, name="leash", daemon=True).start()
