"""Danger: somebody checks the store of a running shop, and the check claims, ends or leaves something."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

from effectlog import EffectLog, NotApplied, Retry, RunState, durable_task, effect
from effectlog.testing.conformance import GUARANTEES

if TYPE_CHECKING:
    from pathlib import Path

go_on = threading.Event()
requested: list[str] = []


@effect(key="{what}", in_doubt="hold")
async def act(what: str) -> str:
    requested.append(what)
    if what == "held":
        raise ConnectionError("no answer")
    while what == "running" and not go_on.is_set():
        await asyncio.sleep(0.01)
    return what


@durable_task(retry=Retry(max_attempts=1), on="shop.event")
async def acts(what: str) -> str:
    if what == "failed":
        raise ValueError(what)
    return await act(what)


def dump(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in the store but signs of life."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return {
            table: sorted(
                tuple((name, row[name]) for name in tuple(row.keys()) if name not in ("lease_expires", "seq"))
                for row in connection.execute(f"SELECT * FROM {table}")
            )
            for table in tables
            if table.startswith("effectlog_")
            and table not in ("effectlog_workers", "effectlog_subscriptions")
        }


async def settled(log: EffectLog, state: RunState) -> None:
    async with asyncio.timeout(15):
        while not await log.list_runs(state=state):
            await asyncio.sleep(0.01)


async def test_a_whole_check_beside_a_worker_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    go_on.clear()
    async with EffectLog(path) as log, log.worker():
        whats = ["held", "failed", "succeeded", "running"]
        runs = {what: await log.enqueue(acts.with_options(idempotency_key=what), what) for what in whats}
        runs["pending"] = await log.enqueue(acts.with_options(delay=3600.0), "pending")
        runs["cancelled"] = await log.enqueue(acts.with_options(delay=3600.0), "cancelled")
        await runs["cancelled"].cancel()
        for state in RunState:
            await settled(log, state)
        before = dump(path)
        requests = list(requested)
        command = [sys.executable, "-m", "effectlog", "check-store", str(path)]
        check = await asyncio.create_subprocess_exec(*command, stdout=-1, stderr=-1)
        out, err = await check.communicate()
        assert (check.returncode, err) == (0, b""), (out, err)
        given = re.findall(r"^given +(.+)$", out.decode(), re.MULTILINE)
        assert given == [guarantee.name for guarantee in GUARANTEES]
        assert dump(path) == before
        assert requested == requests
        assert len(await log.emit("shop.event", "pending")) == 1, (
            "the check left a subscriber to somebody's event"
        )
        # And the shop is still open.
        go_on.set()
        assert await runs["running"].result(15) == "running"
        await log.resolve(runs["held"].id, "held", NotApplied(), by="test")
        fresh = await log.enqueue(acts, "fresh")
        assert await fresh.result(15) == "fresh"
