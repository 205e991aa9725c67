"""F169: the network loses the server's reply to ``enqueue``.

The caller, and whoever asks again with the key, get one run.
"""

from __future__ import annotations

import pytest
from support.proxy import Proxy

from effectlog import EffectLog, durable_task
from effectlog.store.postgres.store import PostgresStore


@durable_task(name="asked twice")
async def asked_twice(what: str) -> str:
    return what


@pytest.mark.parametrize("lose", ["answer", "message"])
async def test_an_enqueue_whose_answer_is_lost_made_one_run(
    lose: str, postgres_url: str, postgres_schema: str
) -> None:
    proxy = Proxy(postgres_url)
    task = asked_twice.with_options(idempotency_key="order:1")
    async with proxy.running() as url, EffectLog(PostgresStore(url, schema=postgres_schema)) as log:
        await log.enqueue(asked_twice, "warm")  # The first transaction of a connection does more.
        proxy.lose = lose
        first = await log.enqueue(task, "a")
        again = await log.enqueue(task, "a")
        assert (proxy.lost, first.created, again.created, again.id) == (1, True, False, first.id)
        assert len(await log.list_runs()) == 2
        async with log.worker():
            assert await again.result(10) == "a"
