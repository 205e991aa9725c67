"""Threads that are none: libraries that put cooperative tasks in the place of Python's threads.

Leaf module. Under them a heartbeat waits for whatever blocks, and two event loops on two threads get in each other's
way, so nothing here could be promised.
"""

from __future__ import annotations

import sys
from typing import Any

from effectlog.errors import ConfigurationError


def refuse_green_threads() -> None:
    """Raise ConfigurationError where gevent or eventlet has patched ``threading``."""
    gevent: Any = sys.modules.get("gevent.monkey")
    eventlet: Any = sys.modules.get("eventlet.patcher")
    if gevent is not None and gevent.is_module_patched("threading"):
        name = "gevent"
    elif eventlet is not None and eventlet.is_monkey_patched("thread"):
        name = "eventlet"
    else:
        return
    raise ConfigurationError(
        f"{name} has patched this process's threads, and effectlog needs real ones for its heartbeat and its store: open "
        f"the log in a process without monkey patching (gunicorn: a worker class such as gthread)"
    )
