"""Processes that begin with everything imported: forked from one that has, where a new interpreter takes a second.

One server of such processes for everything that a test process starts; it is started with the first of them.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from functools import cache
from multiprocessing import forkserver
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerContext

# Modules of tests whose folder is not among those that are run can't be imported there, and are passed over.
_PRELOADED = ["pytest", "effectlog.store.probe", "effectlog.store.postgres"]
_PRELOADED += ["worker_app", "matrix_child", "killed_process"]


@cache
def prepared() -> ForkServerContext:
    """The context that forks such processes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        forkserver.ensure_running()
    return context


def _tell(pipe: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    pipe.send(function(*arguments))


def outcome(function: Callable[..., Any], *arguments: Any, patience: float = 50.0) -> tuple[int | None, Any]:
    """The exit code of a process that did nothing but call this, and what it returned if it lived on until then."""
    ours, theirs = prepared().Pipe(duplex=False)
    process = prepared().Process(target=_tell, args=(theirs, function, arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        returned = ours.recv() if ours.poll(patience) else None
    except EOFError:
        returned = None
    process.join(patience)
    code = process.exitcode
    process.kill()
    process.join()
    process.close()
    ours.close()
    return code, returned
