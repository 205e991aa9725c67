"""Opening the store that a command works on. A command that only reads never makes one."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from effectlog.errors import ConfigurationError, StoreRefused
from effectlog.log import EffectLog
from effectlog.store.protocol import OpensForReading
from effectlog.store.resolve import resolve_store, sqlite_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine to its end."""
    return asyncio.run(coroutine)


@asynccontextmanager
async def open_log(store: str, *, create: bool = False, **options: Any) -> AsyncIterator[EffectLog]:
    """The log on this store, closed at the end; without ``create`` a missing file is an error."""
    check(store, create=create)
    # Never an option: command lines are shown to every user of the machine.
    options.setdefault("fingerprint_secret", os.environ.get("EFFECTLOG_FINGERPRINT_SECRET") or None)
    async with EffectLog(store, **options) as log:
        yield log


@asynccontextmanager
async def open_to_read(store: str) -> AsyncIterator[EffectLog]:
    """The same for a command that only reads, and needs no more rights than that.

    Whether the store can be trusted with work is asked by those who are going to work.
    """
    check(store, create=False)
    opened = resolve_store(store)
    if isinstance(opened, OpensForReading):
        opened.for_reading()
    async with EffectLog(opened, check_store=not isinstance(opened, OpensForReading)) as log:
        yield log


def check(store: str, *, create: bool) -> None:
    """Refuse a store that no command can work on: one in memory, or a missing file without ``create``."""
    path = sqlite_path(store)
    if path == ":memory:":
        raise ConfigurationError("a store in memory is gone with its process; give a file or a database")
    if path is not None and not create and not Path(path).exists():
        raise StoreRefused(
            f"there is no store at {Path(path).absolute()}; a worker, an enqueue or 'effectlog migrate' "
            "makes one"
        )
