"""Danger: a worker is paused inside a call, loses its runs, and wakes up: its request goes out after all.

Kind of destination by policy, with real SIGSTOP and SIGCONT. Here is also the one window that only a key
closes.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from matrix_tasks import CELLS, TASKS, Cell
from support.matrix_harness import (
    Destinations,
    Seen,
    destinations,
    enqueue,
    owner,
    seen,
    settled,
    unsafe,
    wrong,
)

from effectlog import EffectLog, NotApplied

LEASE = 0.9
FORMS = ("sync", "async")
# "late" answers its first request only after a look-up; that request is the paused one, and would wait.
PROMPT = [cell for cell in CELLS if cell.kind != "late"]


def while_paused(point: str, cell: Cell) -> Seen:
    sent = int(point == "accepted")
    if cell.policy == "resend":
        return Seen(sent + 1, 1 if cell.keyed else sent + 1, "succeeded")
    if cell.policy == "look-up" and cell.searchable and sent:
        return Seen(1, 1, "succeeded")
    return Seen(sent, sent, "held")  # A miss proves nothing while the first owner may be alive and sending.


def after_waking(point: str, cell: Cell) -> Seen:
    """What was held is settled by the paused owner's own outcome, which came too late for its attempt."""
    if cell.policy == "resend":
        return Seen(2, 1 if cell.keyed else 2, "succeeded")
    return Seen(1, 1, "succeeded")


async def wait_for(found: Destinations, counts: dict[Cell, int]) -> None:
    for cell, count in counts.items():
        await asyncio.to_thread(found[cell].wait_for_requests, count)


async def all_succeeded(runs: dict[Cell, Any]) -> None:
    async with asyncio.timeout(30):
        for run in runs.values():
            while (await run.record()).state != "succeeded":
                await asyncio.sleep(0.02)


@pytest.mark.paced
@pytest.mark.parametrize("point", ["before request", "accepted"])
@pytest.mark.parametrize("form", FORMS)
async def test_paused_at(tmp_path: Path, form: str, point: str) -> None:
    path = str(tmp_path / "runs.db")
    with destinations(PROMPT) as found:
        async with EffectLog(path, lease=LEASE, check_store=False) as log:
            runs = await enqueue(log, form, PROMPT)
            with owner(path, form, point, found, LEASE) as first:
                await first.reached()
                first.pause()
                async with log.worker(name="B", tasks=[TASKS[form]]):
                    await settled(runs)
                    paused = await seen(runs, found)
                    first.wake()
                    await wait_for(found, {cell: after_waking(point, cell).requests for cell in PROMPT})
                    await all_succeeded(runs)
            woken = await seen(runs, found)
    assert not unsafe(woken)
    assert not wrong(paused, lambda cell: while_paused(point, cell))
    assert not wrong(woken, lambda cell: after_waking(point, cell))


@pytest.mark.paced
async def test_the_one_open_window_is_closed_by_a_key_and_by_nothing_else(tmp_path: Path) -> None:
    """Somebody decides that nothing happened while the paused owner has yet to send: without a key both send."""
    path = str(tmp_path / "runs.db")
    cells = [Cell("blind", "hold"), Cell("look_up", "look-up"), Cell("replay", "hold"), Cell("drop", "hold")]
    with destinations(cells) as found:
        async with EffectLog(path, lease=LEASE, check_store=False) as log:
            runs = await enqueue(log, "sync", cells)
            with owner(path, "sync", "before request", found, LEASE) as first:
                await first.reached()
                first.pause()
                async with log.worker(name="B", tasks=[TASKS["sync"]]):
                    await settled(runs)
                    assert {found.state for found in (await seen(runs, found)).values()} == {"held"}
                    for cell, run in runs.items():
                        await log.resolve(run.id, f"send:{cell.kind}", NotApplied(), by="somebody in a hurry")
                    await all_succeeded(runs)
                first.wake()
                await wait_for(found, dict.fromkeys(cells, 2))
                for cell in cells:
                    await asyncio.to_thread(found[cell].wait_for_effects, 1 if cell.keyed else 2)
            woken = await seen(runs, found)
    assert not wrong(woken, lambda cell: Seen(2, 1 if cell.keyed else 2, "succeeded"))
