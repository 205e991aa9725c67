"""Green threads: libraries that replace Python's threads, or what they wait with, by cooperative tasks.

Leaf module. Under them a heartbeat waits for whatever blocks, and two event loops on two threads get in each
other's way, so nothing here could be promised.
"""

from __future__ import annotations

import sys
from typing import Any

from effectlog.errors import ConfigurationError

_PATCHED = (
    "threading",
    "thread",
    "_thread",
    "queue",
    "select",
    "selectors",
    "socket",
    "ssl",
    "time",
    "os",
    "signal",
)
"""Modules that an event loop, a store or a thread of ours is built on."""


def refuse_green_threads() -> None:
    """Raise ConfigurationError where gevent or eventlet has patched what threads and loops wait with."""
    gevent: Any = sys.modules.get("gevent.monkey")
    eventlet: Any = sys.modules.get("eventlet.patcher")
    for name, is_patched in (
        ("gevent", getattr(gevent, "is_module_patched", None)),
        ("eventlet", getattr(eventlet, "is_monkey_patched", None)),
    ):
        patched = [module for module in _PATCHED if is_patched is not None and is_patched(module)]
        if patched:
            raise ConfigurationError(
                f"{name} has patched this process's {', '.join(patched)}, and effectlog needs the real ones "
                "for its heartbeat and its store: open the log in a process without monkey patching "
                "(gunicorn: a worker class such as gthread)"
            )
