"""A store that was away for a while: whoever waits for a result looks again as soon as it is back, and not the longer."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import TYPE_CHECKING

import pytest
from support.postgres_server import Server

from effectlog import EffectLog, durable_task

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

AWAY = 1.5

LOCK = """
import fcntl, sys
with open(sys.argv[1], "r+b") as shm:
    fcntl.lockf(shm, fcntl.LOCK_EX, 5, 123)  # The five marks of which every reader takes one (WAL_READ_LOCK).
    print("locked", flush=True)
    sys.stdin.read()
"""


@durable_task(name="quick.outage")
def quick() -> int:
    return 7


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server().start()
    yield server
    server.stop(how=signal.SIGQUIT)


@contextlib.asynccontextmanager
async def _stopped(server: Server) -> AsyncIterator[None]:
    await asyncio.to_thread(server.stop)
    yield
    await asyncio.to_thread(server.start)


@contextlib.asynccontextmanager
async def _locked(path: Path) -> AsyncIterator[None]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LOCK, f"{path}-shm", stdin=pipe, stdout=pipe
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"locked\n"
    yield
    await process.communicate(b"")  # The end of its input ends it.


async def _asked_soon_after(url: str, outage: Callable[[], AbstractAsyncContextManager[None]]) -> None:
    async with EffectLog(url) as log:
        done = await log.enqueue(quick)
        async with log.worker():
            await done.result(10)
        never = await log.enqueue(quick)
        async with outage():
            waiting = asyncio.ensure_future(never.result())  # Its look takes as long as the outage.
            await asyncio.sleep(AWAY)
        before = asyncio.get_running_loop().time()
        await done.record()
        assert await done.result(1.0) == 7
        assert asyncio.get_running_loop().time() - before < 2.0
        waiting.cancel()


@pytest.mark.paced
async def test_postgresql(server: Server) -> None:
    await _asked_soon_after(server.url, lambda: _stopped(server))


@pytest.mark.paced
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="knows where SQLite locks there")
async def test_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "o.db"
    await _asked_soon_after(str(path), lambda: _locked(path))
