"""Importing the user's modules, from the current directory as well, and finding tasks in them."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from typing import Any

from effectlog.decorators.registry import registered
from effectlog.decorators.task import spec_of
from effectlog.errors import ConfigurationError


def load(module: str) -> Any:
    """Import a module; raises ConfigurationError saying where its code failed."""
    if module.endswith(".py") or "/" in module:
        name = module.removeprefix("./").removesuffix(".py").replace("/", ".")
        raise ConfigurationError(f"{module} is a file; give the module's name, as in {name}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"module {module} can't be imported: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    reason = f"{type(error).__name__}: {error}"
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename
    ]
    last = frames[-1] if frames else None
    if last is None or last.filename == __file__:
        return reason
    return f"{reason} ({last.filename}, line {last.lineno})"


def find_task(address: str) -> Any:
    """The task behind ``MODULE:TASK``, where TASK is its name in the module (``Class.method`` too).

    Raises ConfigurationError, with the tasks that the module has.
    """
    module_name, colon, path = address.partition(":")
    if not (module_name and colon and path):
        raise ConfigurationError(f"task {address!r}: write MODULE:TASK, as in shop:fulfil")
    module = load(module_name)
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise ConfigurationError(f"module {module_name} has no task {path!r}; it has {_tasks_of(module)}")
    spec_of(found)
    return found


def _tasks_of(module: Any) -> str:
    known = {id(spec) for spec in registered().values()}
    names = [name for name, value in vars(module).items() if id(getattr(value, "spec", None)) in known]
    return ", ".join(sorted(names)) or "none"
