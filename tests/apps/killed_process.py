"""A process around a transactional effect, or a caller's transaction, that kills itself at a named point."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from support.callers import AWAITED
from support.orders import is_postgres, set_hook, ship, task_for

from effectlog import EffectLog
from effectlog.store.postgres.effect_transaction import OpenTransaction as PostgresTransaction
from effectlog.store.sqlite.transactions import OpenTransaction as SqliteTransaction


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def install(log: EffectLog, url: str, point: str) -> None:
    """Die at the point: before the transaction begins, in the function, and around the commit."""
    kind: Any = PostgresTransaction if is_postgres(url) else SqliteTransaction
    commit = kind.commit
    match point:
        case "before begin":
            store: Any = log.administration.engine.store
            setattr(store, "transaction" if is_postgres(url) else "transaction_sync", die)
        case "in function":
            set_hook(url, die)
        case "before commit":
            kind.commit = die
        case "after commit":

            async def awaited(self: Any) -> None:
                await commit(self)
                die()

            def blocking(self: Any) -> None:
                commit(self)
                die()

            kind.commit = awaited if is_postgres(url) else blocking


async def effect(url: str, point: str) -> str:
    async with EffectLog(url, check_store=False) as log:
        install(log, url, point)
        result: str = await log.run(task_for(url).with_options(idempotency_key="k"), "a")
        return result


async def caller(url: str, point: str) -> None:
    driver = AWAITED["postgres" if is_postgres(url) else "sqlite"][0]
    async with EffectLog(url, check_store=False) as log:
        async with driver(url) as transaction:
            await log.within(transaction).enqueue(ship.with_options(idempotency_key="k"), "a")
            if point == "before commit":
                die()
        if point == "after commit":
            die()


def main(what: str, url: str, point: str) -> str | None:
    played: Any = {"effect": effect, "caller": caller}[what](url, point)
    result: str | None = asyncio.run(played)
    return result
