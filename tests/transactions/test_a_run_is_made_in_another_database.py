"""Danger: the caller's connection is to another database, and the run is committed where no worker of the store is."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from support.callers import from_asyncpg
from support.orders import ship

from effectlog import ConfigurationError, EffectLog


@pytest.mark.parametrize("has_schema", [True, False])
async def test_it_is_refused_and_both_are_named(postgres: str, has_schema: bool) -> None:
    name = f"{urlsplit(postgres).path[1:]}_other"
    other = urlunsplit(urlsplit(postgres)._replace(path=f"/{name}"))
    admin = await asyncpg.connect(postgres)
    await admin.execute(f"CREATE DATABASE {name}")
    try:
        connection = await asyncpg.connect(other)
        await connection.execute("CREATE TABLE orders (id TEXT, cents BIGINT)")
        await connection.close()
        if has_schema:
            async with EffectLog(other):
                pass
        async with EffectLog(postgres) as log:
            async with from_asyncpg(other) as transaction:
                with pytest.raises(ConfigurationError, match=f"{name}' and the store is '{name[:-6]}'"):
                    await log.within(transaction).enqueue(ship, "a")
            async with from_asyncpg(postgres) as transaction:
                run = await log.within(transaction).enqueue(ship, "a")
            assert (await run.record()).id == run.id
    finally:
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await admin.close()
