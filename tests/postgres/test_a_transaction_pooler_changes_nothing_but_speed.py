"""Behind PgBouncer in transaction mode everything is right, though changes are polled for and only leases end."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import pytest
from support.postgres_commands import create, do, finish, new_run, running, start
from support.postgres_server import free_port, missing, quiet, run_as, scratch_folder

from effectlog.store import commands as c
from effectlog.store.postgres.store import PostgresStore
from effectlog.testing.conformance import GUARANTEES, check_store

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
TOPICS = (".claims", ".concurrency", ".idempotency")


@pytest.fixture(scope="module")
def pooler(postgres_url: str) -> Iterator[str]:
    """The URL of a PgBouncer with two server connections before the test server."""
    if PROGRAM is None:
        missing("needs PgBouncer (apt-get install pgbouncer)")
    folder, port = scratch_folder(), free_port()
    server = urlsplit(postgres_url)
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n* = host={server.hostname} port={server.port} user=postgres\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\n"
        f"pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 100\nunix_socket_dir =\n"
    )
    config.chmod(0o644)
    process = subprocess.Popen([PROGRAM, "-q", str(config)], **quiet(), **run_as())
    yield urlunsplit(server._replace(netloc=f"postgres@127.0.0.1:{port}"))
    process.terminate()
    process.wait(10)


async def _open(url: str, schema: str) -> PostgresStore:
    deadline = time.monotonic() + 10
    while True:
        store = PostgresStore(url, schema=schema)
        try:
            await store.open()
        except Exception:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)
        else:
            return store


async def test_it_is_detected_and_guarantees_hold(pooler: str, postgres_schema: str) -> None:
    store = await _open(pooler, postgres_schema)
    assert (await store.health())["pooler"] is True
    await store.close()
    names = {guarantee.name for guarantee in GUARANTEES if guarantee.check.__module__.endswith(TOPICS)}
    report = await check_store(lambda: _open(pooler, postgres_schema), only=names)
    assert len(report.passed) + len(report.failed) == len(names) > 30
    report.raise_if_failed()


async def test_many_processes_share_few_connections(pooler: str, postgres_schema: str) -> None:
    stores = [await _open(pooler, postgres_schema) for _ in range(4)]
    await stores[0].liveness.hold("owner")
    (fence,) = await running(stores[0], "owner")
    assert await stores[1].liveness.dead(frozenset({"owner"})) == frozenset()
    await do(stores[0], start(fence))
    calls = [do(store, create(new_run())) for store in stores for _ in range(25)]
    reads = [store.get(fence.run_id) for store in stores for _ in range(10)]
    created, read = await asyncio.gather(asyncio.gather(*calls), asyncio.gather(*reads))
    assert all(outcome.created for outcome in created)
    assert all(stored is not None for stored in read)
    finished = await do(stores[0], finish(fence))
    assert finished.effect.requests == 1
    await stores[0].liveness.drop("owner")
    for store in stores:
        await store.close()


async def test_the_url_may_say_so(pooler: str, postgres_url: str, postgres_schema: str) -> None:
    for url, pooled in ((f"{postgres_url}?pooler=transaction", True), (postgres_url, False)):
        store = await _open(url, postgres_schema)
        assert (await store.health())["pooler"] is pooled
        assert isinstance(await do(store, c.RemoveWorker("nobody")), c.Done)
        await store.close()
