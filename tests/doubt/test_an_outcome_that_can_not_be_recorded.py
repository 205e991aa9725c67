"""Danger: the destination accepted and the store fails right then, so the next attempt sends a second time."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from effectlog import EffectLog, Retry, durable_task, effect, operation_id
from effectlog.engine import queue
from effectlog.errors import StoreError
from effectlog.store import commands as c
from effectlog.store.sqlite.store import SqliteStore
from effectlog.testing.destinations import KINDS, CountingDestination, send

url = ""


@pytest.fixture
def destination(monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingDestination]:
    with CountingDestination("replay") as running:
        monkeypatch.setitem(globals(), "url", running.url)
        yield running


class FullDisk(SqliteStore):
    """A disk that is full whenever a result is to be written, until it is cleaned up."""

    full = True

    async def apply(self, commands: Sequence[c.Command]) -> list[Any]:
        completes = any(
            isinstance(command, c.FinishEffect) and command.outcome is c.RequestOutcome.COMPLETED
            for command in commands
        )
        if completes and self.full:
            raise StoreError("the disk is full")
        return await super().apply(commands)


def declare(policy: str) -> Any:
    @effect(key="send", name=f"unrecorded/{policy}", destination=KINDS["replay"].contract, in_doubt=policy)
    def send_it() -> str:
        return str(send(url, {"operation": "one"}, key=operation_id())["id"])

    return send_it


EFFECTS = {policy: declare(policy) for policy in ("resend", "hold")}


@durable_task(name="unrecorded", retry=Retry(max_attempts=2, delay=0.0))
def task(policy: str) -> str:
    result: str = EFFECTS[policy]()
    return result


@pytest.mark.parametrize(("policy", "requests"), [("resend", 2), ("hold", 1)])
async def test_it_is_sent_again_with_the_same_key_or_held(
    path: str,
    destination: CountingDestination,
    until: Any,
    policy: str,
    requests: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue, "LATE", 0.2)
    async with EffectLog(path, check_store=False) as log:
        run = await log.enqueue(task, policy)
    async with EffectLog(FullDisk(path), lease=0.5, check_store=False) as broken, broken.worker():
        doomed = await broken.get_run(run.id)
        await asyncio.to_thread(destination.wait_for_effects, 1)
        async with asyncio.timeout(20):
            while (await doomed.record()).attempts[0].outcome is None:
                await asyncio.sleep(0.01)
    async with EffectLog(path, check_store=False) as log, log.worker():
        record = await until(await log.get_run(run.id), "held", "succeeded", "failed")
    assert record.state == ("succeeded" if policy == "resend" else "held")
    assert len(destination.effects()) == 1
    assert len(destination.requests()) >= requests
    assert len({seen.key for seen in destination.requests()}) == 1
