"""Three hosts, one cut off from the server: it must stop before the other one begins, and its late writes must not count.

The hosts are network namespaces with process namespaces of their own, so that no host sees another's processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import APPS
from support.postgres_server import Server, missing

from effectlog.codec import JsonCodec
from effectlog.store import commands as c
from effectlog.store.postgres.store import PostgresStore
from effectlog.store.rows import NewRun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from effectlog.store.rows import StoredRun

PROGRAM = APPS / "host_program.py"
LEASE = 2.0


def _run(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


class Network:
    """Namespaces for the server and two hosts, each host on a cable of its own to the server."""

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex[:5]
        self.server = f"el-{self._mark}-s"

    def host(self, name: str) -> str:
        return f"el-{self._mark}-{name}"

    def cable(self, name: str) -> str:
        return f"el{self._mark}{name}"

    def lay(self) -> None:
        assert _run("ip", "netns", "add", self.server)
        for number, name in enumerate("ab"):
            host, cable, far = self.host(name), self.cable(name), f"{self.cable(name)}f"
            for command in (
                f"ip netns add {host}",
                f"ip link add {cable} netns {self.server} type veth peer name {far} netns {host}",
                f"ip -n {self.server} addr add 10.77.{number}.1/24 dev {cable}",
                f"ip -n {self.server} link set {cable} up",
                f"ip -n {host} addr add 10.77.{number}.2/24 dev {far}",
                f"ip -n {host} link set {far} up",
            ):
                assert _run(*command.split()), command
        assert _run("ip", "-n", self.server, "link", "set", "lo", "up")

    def remove(self) -> None:
        for name in (self.server, self.host("a"), self.host("b")):
            _run("ip", "netns", "del", name)

    def plug(self, name: str, state: str) -> None:
        assert _run("ip", "-n", self.server, "link", "set", self.cable(name), state)


def _why_not() -> str | None:
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        missing("needs ip (apt-get install iproute2) and unshare (util-linux)")
    if os.geteuid() != 0:
        return "needs root to make network namespaces"
    network = Network()
    try:
        network.lay()
    except AssertionError as error:
        return f"network namespaces can't be made here: {error}"
    finally:
        network.remove()
    return None


@pytest.fixture
def network() -> Iterator[Network]:
    reason = _why_not()
    if reason is not None:
        pytest.skip(reason)
    network = Network()
    network.lay()
    yield network
    network.remove()


@pytest.fixture
def server(network: Network) -> Iterator[Server]:
    as_nobody = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
    server = Server(inside=("ip", "netns", "exec", network.server, *as_nobody), listen_addresses="*")
    with (server.data / "pg_hba.conf").open("a") as rules:
        rules.write("host all all 10.77.0.0/16 trust\n")
    server.start()
    yield server
    server.stop(how=signal.SIGQUIT)


class Host:
    """A worker process on a host, and what it has told."""

    def __init__(self, network: Network, server: Server, name: str, number: int) -> None:
        url = f"postgresql://postgres@10.77.{number}.1:{server.port}/postgres"
        inside = (
            "ip",
            "netns",
            "exec",
            network.host(name),
            "unshare",
            "-p",
            "-f",
            "--mount-proc",
            "--kill-child",
        )
        self._command = (*inside, sys.executable, str(PROGRAM), url, name, str(LEASE))
        self.told: list[tuple[str, float, str]] = []
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdout=asyncio.subprocess.PIPE, env=environment
        )
        self._reading = asyncio.ensure_future(self._read())
        await self.wait_for("ready")

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            what, at, *about = line.decode().split()
            self.told.append((what, float(at), " ".join(about)))

    async def wait_for(self, what: str, seconds: float = 20.0) -> float:
        """When it was first told."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for told, at, _ in self.told:
                if told == what:
                    return at
            await asyncio.sleep(0.02)
        raise AssertionError(f"{what!r} was not told within {seconds} s, only {self.told[-5:]}")

    async def stop(self) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        self._reading.cancel()


@pytest.mark.paced
async def test_a_partitioned_owner_stops_before_the_other_begins(network: Network, server: Server) -> None:
    store = PostgresStore(server.socket_url)
    await store.open()
    await store.apply([_new_run()])
    a, b = Host(network, server, "a", 0), Host(network, server, "b", 1)
    await a.start()
    await a.wait_for("request")
    await b.start()
    network.plug("a", "down")
    cut = time.monotonic()
    began = await b.wait_for("request")
    assert cut + LEASE / 2 < began < cut + LEASE + 3.0
    ended = await _ended(store)
    network.plug("a", "up")
    await a.wait_for("lost", 30.0)
    (why,) = [about for what, _, about in a.told if what == "lost"]
    # Whichever notices first, the request to the store or the lease: it is the network that failed.
    assert why.startswith(("LeaseLost: ", "StoreError: "))
    assert "because the store did not renew it" in why or "has not answered" in why
    assert "was stopped" not in why
    assert "interpreter lock" not in why
    last = max(at for what, at, _ in a.told if what == "request")
    assert last < min(began, cut + LEASE), "both executed the run at one time"
    after = await store.get("cut-off")
    assert after is not None
    assert after.row == ended.row
    assert [attempt.owner for attempt in after.attempts] == [attempt.owner for attempt in ended.attempts]
    assert len(after.attempts) == 2
    assert after.result is not None
    assert b"b" in after.result
    await a.stop()
    await b.stop()
    await store.close()


def _new_run() -> c.CreateRuns:
    return c.CreateRuns((NewRun("cut-off", "cut_off", JsonCodec().encode({})),), "cut_off")


async def _ended(store: PostgresStore) -> StoredRun:
    while True:
        stored = await store.get("cut-off")
        if stored is not None and stored.row.state.ended:
            return stored
        await asyncio.sleep(0.05)
