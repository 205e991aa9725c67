"""What a paused owner's request returned is the only thing that settles a held run by itself: it must get to the store."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import pytest
from paused_shop import charges
from support.postgres_server import Server
from support.stopping import stopping

from effectlog import EffectLog, RunHeld

if TYPE_CHECKING:
    from collections.abc import Iterator

LEASE = 1.0


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server().start()
    yield server
    server.stop(how=signal.SIGQUIT)


@pytest.mark.paced
async def test_after_a_pause_and_an_outage_in_the_middle_of_its_record(server: Server) -> None:
    """Paused while it records an outcome in time, it wakes after its lease, to a server that is away."""
    async with EffectLog(server.url, lease=LEASE) as log:
        async with stopping(server.url, "save_effect:before", lease=LEASE, patience=0.5) as a:
            run = await log.enqueue(charges)
            await a.told("charged")
            a.order("stop")
            await a.told("stop done")
            a.order("return")
            await a.told("stopping")
            async with log.worker(name="B", tasks=[charges]):
                with pytest.raises(RunHeld):
                    await run.result(timeout=20)
                await asyncio.to_thread(server.stop, how=signal.SIGQUIT)
                a.go_on()
                await asyncio.sleep(2.0)
                await asyncio.to_thread(server.start)
                async with asyncio.timeout(20):
                    while (await run.record()).state == "held":
                        await asyncio.sleep(0.05)
                assert await run.result(timeout=20) == "A"
        record = await run.record()
    assert [(e.requests, e.resolved_by) for e in record.effects] == [(1, "late outcome of attempt 1")]
