"""Keyed runs pushed in random order while workers complete them must not deadlock, nor be doubled."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from support.postgres_commands import create, do, new_run

from effectlog.model import AttemptOutcome, RunState
from effectlog.store import commands as c
from effectlog.store.protocol import RunFilter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from effectlog.store.postgres.store import PostgresStore

CLIENTS = 4
KEYS = 1000
BATCH = 20


async def test_four_clients_push_the_same_thousand_keys(
    open_store: Callable[..., Awaitable[PostgresStore]],
) -> None:
    stores = [await open_store() for _ in range(CLIENTS)]
    pushing = CLIENTS
    created = 0

    async def push(store: PostgresStore) -> None:
        nonlocal pushing, created
        keys = [f"k{n}" for n in range(KEYS)]
        random.shuffle(keys)
        for at in range(0, KEYS, BATCH):
            outcomes = await store.apply([create(new_run(), key=key) for key in keys[at : at + BATCH]])
            created += sum(outcome.created for outcome in outcomes if isinstance(outcome, c.Created))
        pushing -= 1

    async def complete(store: PostgresStore, owner: str) -> int:
        ended = 0
        while True:
            claimed = await do(store, c.Claim(owner, owner, 60.0, (c.TaskLimit(("task",)),), BATCH))
            fences = [c.Fence(stored.row.id, stored.row.attempt) for stored in claimed.runs]
            random.shuffle(fences)
            ends = [
                c.EndAttempt(fence, AttemptOutcome.SUCCEEDED, RunState.SUCCEEDED, result=b"1")
                for fence in fences
            ]
            ended += sum(isinstance(outcome, c.RunMoved) for outcome in await store.apply(ends))
            if not fences and not pushing:
                return ended
            await asyncio.sleep(0 if fences else 0.01)

    results = await asyncio.wait_for(
        asyncio.gather(
            *(push(store) for store in stores), *(complete(store, f"o{n}") for n, store in enumerate(stores))
        ),
        50,
    )
    assert created == KEYS
    assert sum(result or 0 for result in results) >= KEYS - BATCH * CLIENTS
    left = await stores[0].find(RunFilter(limit=10 * KEYS))
    assert len(left) == KEYS
    assert {stored.idempotency_key for stored in left} == {f"k{n}" for n in range(KEYS)}
