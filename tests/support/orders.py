"""The application of these tests: orders in a table beside the store's own, and tasks that write them."""

from __future__ import annotations

import sqlite3
from typing import Any

import asyncpg

from effectlog import Retry, current_transaction, durable_task, effect

made: list[str] = []


def is_postgres(url: str) -> bool:
    return url.startswith("postgresql://")


async def orders(url: str) -> list[str]:
    """What is in the application's own table."""
    if is_postgres(url):
        connection = await asyncpg.connect(url)
        rows = await connection.fetch("SELECT id FROM orders ORDER BY id")
        await connection.close()
    else:
        file = sqlite3.connect(url)
        rows = file.execute("SELECT id FROM orders ORDER BY id").fetchall()
        file.close()
    return [row[0] for row in rows]


def hook(_: Any) -> Any:
    """What a test lets happen after the write, inside the function."""


hooks: dict[str, Any] = {"sync": hook, "async": hook}


@effect(key="order:{name}", transactional=True)
def write(name: str) -> str:
    connection: sqlite3.Connection = current_transaction()
    connection.execute("INSERT INTO orders VALUES (?, 1)", (name,))
    hooks["sync"](connection)
    return name.upper()


@effect(key="order:{name}", transactional=True)
async def awrite(name: str) -> str:
    connection: asyncpg.Connection = current_transaction()
    await connection.execute("INSERT INTO orders VALUES ($1, 1)", name)
    if (waited := hooks["async"](connection)) is not None:
        await waited
    return name.upper()


@durable_task(retry=Retry(delay=0.0))
def order(name: str) -> str:
    return write(name)


@durable_task(retry=Retry(delay=0.0))
async def aorder(name: str) -> str:
    return await awrite(name)


@durable_task
def ship(name: str) -> str:
    made.append(name)
    return name


@durable_task(on="ordered")
def tell(name: str) -> str:
    made.append(name)
    return name


def task_for(url: str) -> Any:
    return aorder if is_postgres(url) else order


def set_hook(url: str, function: Any) -> None:
    hooks["async" if is_postgres(url) else "sync"] = function
