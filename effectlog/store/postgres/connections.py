"""Connections to PostgreSQL: opening them, lending them for a bounded time, and never leaking one.

A *lane* is a small pool. User traffic and heartbeats have a lane each, so neither waits for the other.
The invariant: nothing here cancels a query. A cancelled COMMIT that waits for a standby would return
as if the standby had it; so a call that takes too long loses its connection instead, and a caller's
cancellation leaves the call to end by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import asyncpg  # type: ignore[import-untyped]  # the driver ships no type information

from effectlog.errors import StoreClosed, StoreError, StoreTrouble
from effectlog.store.statements import statements

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

    from effectlog.store.url import PostgresUrl

T = TypeVar("T")

APPLICATION = "effectlog"
"""How the server's list of sessions shows ours, whose transactions wait for their next message alone."""
EFFECT_APPLICATION = "effectlog effect"
"""How it shows those in which effects write, and wait for whatever they like."""
SESSION_APPLICATION = "effectlog session"
"""How it shows the session that keeps a process's locks: without it, a stopped process looks dead."""
CONNECT_TIMEOUT = 5.0
"""Seconds for one attempt to connect."""
IDLE_LIFETIME = 60.0
"""Seconds after which an idle connection above the pool's minimum is closed."""


class Querying(Protocol):
    """What a batch needs: a statement with numbered parameters, and its rows."""

    async def fetch(self, query: str, *args: Any) -> list[Any]: ...


class Connection(Querying, Protocol):
    """What the store uses of the driver's connection."""

    async def execute(self, query: str, *args: Any) -> str: ...
    async def fetchval(self, query: str, *args: Any) -> Any: ...
    async def fetchrow(self, query: str, *args: Any) -> Any: ...
    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...
    def add_termination_listener(self, callback: Callable[..., None]) -> None: ...
    def get_server_pid(self) -> int: ...
    def is_closed(self) -> bool: ...
    def terminate(self) -> None: ...
    async def close(self, *, timeout: float | None = None) -> None: ...


def _options(url: PostgresUrl, *, pooled: bool, application: str = APPLICATION) -> dict[str, Any]:
    options: dict[str, Any] = {"dsn": url.dsn, "timeout": CONNECT_TIMEOUT}
    options["server_settings"] = {"application_name": application}
    if pooled:
        # A transaction pooler assigns each transaction another server connection, without its statements.
        options["statement_cache_size"] = 0
    if url.several_hosts and "target_session_attrs" not in url.dsn:
        options["target_session_attrs"] = "read-write"
    return options


async def connect(url: PostgresUrl, *, pooled: bool, application: str = APPLICATION) -> Connection:
    """Open a connection outside every lane."""
    options = _options(url, pooled=pooled, application=application)
    connection = cast("Connection", await asyncpg.connect(**options))
    if not pooled:
        with time_limit(connection, CONNECT_TIMEOUT):
            await _trust_catalog_alone(connection)
    return connection


@contextlib.asynccontextmanager
async def apart(url: PostgresUrl) -> AsyncIterator[Connection]:
    """A connection of one's own for one thing.

    Where a pooler may stand in between, so nothing is prepared.
    """
    connection = await connect(url, pooled=True)
    try:
        yield connection
    finally:
        with contextlib.suppress(Exception):
            await connection.close(timeout=1.0)


def abandon(connection: Connection) -> None:
    """End the connection at once, without a word to the server; whatever waits for it fails."""
    # A lent connection that has ended already is no longer ours to end.
    with contextlib.suppress(asyncpg.InterfaceError):
        connection.terminate()


@contextlib.contextmanager
def time_limit(connection: Connection, seconds: float, suspicion: Suspicion | None = None) -> Iterator[None]:
    """Abandon the connection if the block takes longer than that, and raise suspicion of the others."""

    def end() -> None:
        if suspicion is not None:
            suspicion.rise()
        abandon(connection)

    timer = asyncio.get_running_loop().call_later(seconds, end)
    try:
        yield
    finally:
        timer.cancel()


async def _keep_session(_: object) -> None:
    """No reset when a connection comes back: nothing of ours outlives its transaction."""


async def _trust_catalog_alone(connection: Connection) -> None:
    """Let no function of another schema be taken for the server's own.

    As a statement, which every pooler passes on.
    """
    await connection.execute(statements("postgres")["trust_catalog_alone"])


async def _learn_types(connection: Connection) -> None:
    """Let the driver ask for the types that statements take now, and not in the middle of a transaction."""
    await connection.fetch(statements("postgres")["learn_types"], [], [], [], [], [])


async def _prepare(connection: Connection) -> None:
    await _trust_catalog_alone(connection)
    await _learn_types(connection)


async def _prepare_shared(connection: Connection) -> None:
    """The same for a session that others use: an effect, or whoever a transaction pooler lends it to next."""
    await connection.execute(statements("postgres")["begin_read"])
    await _learn_types(connection)
    await connection.execute("ROLLBACK")


class Suspicion:
    """Whether connections that were fine may be dead by now, for all lanes of a store.

    A network that drops connections in silence drops them all at once: when one has timed out, none that was
    not used since is worth a time-out of its own.
    """

    def __init__(self) -> None:
        self.raised = 0
        """How often it was raised; also from other threads, and by one too few does no harm."""

    def rise(self) -> None:
        """A connection did not answer in time."""
        self.raised += 1


class Pool:
    """A pool of up to ``size`` connections, each lent for one transaction.

    ``patience``: seconds to wait for a free connection, and for a server that is away. ``limit``: seconds
    that a transaction may take. ``effects``: it is user code that borrows, so what it did to the session is
    undone.
    """

    def __init__(
        self,
        url: PostgresUrl,
        suspicion: Suspicion,
        *,
        size: int,
        patience: float,
        limit: float,
        effects: bool = False,
    ) -> None:
        self._suspicion = suspicion
        self._trusted: dict[int, int] = {}
        """By server process: how often suspicion had risen when the connection last worked."""
        self._effects = effects
        self._application = EFFECT_APPLICATION if effects else APPLICATION
        self._url = url
        self._size = size
        self.patience = patience
        self.limit = limit
        self._pool: Any = None
        self._lent = 0

    async def open(self, *, pooled: bool) -> None:
        self._pool = await asyncpg.create_pool(
            min_size=0,
            max_size=self._size,
            max_inactive_connection_lifetime=IDLE_LIFETIME,
            init=functools.partial(self._begin, _prepare_shared if pooled or self._effects else _prepare),
            reset=None if self._effects else _keep_session,
            **_options(self._url, pooled=pooled, application=self._application),
        )

    async def _begin(
        self, prepare: Callable[[Connection], Coroutine[Any, Any, None]], connection: Any
    ) -> None:
        raised, backend = self._suspicion.raised, connection.get_server_pid()
        await prepare(connection)
        self._trusted[backend] = raised
        connection.add_termination_listener(lambda _: self._trusted.pop(backend, None))

    @property
    def idle(self) -> int:
        """Connections open and not lent."""
        return int(self._pool.get_idle_size()) if self._pool is not None else 0

    @property
    def lent(self) -> int:
        """Connections that a transaction is using now."""
        return self._lent

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            await asyncio.wait_for(pool.close(), CONNECT_TIMEOUT)
        except (TimeoutError, OSError, asyncpg.InterfaceError):
            pool.terminate()

    @contextlib.asynccontextmanager
    async def lend(self, *, limit: float | None = None) -> AsyncIterator[Connection]:
        """A connection for one transaction of at most ``limit`` seconds.

        Raises StoreError where all connections stay in use, and the driver's errors.
        """
        if self._pool is None:
            raise StoreClosed(f"{self._url.name} is not open; open the log with 'async with EffectLog(...)'")
        connection = await self._acquire_trusted()
        backend = connection.get_server_pid()
        self._lent += 1
        try:
            with time_limit(connection, limit or self.limit, self._suspicion):
                yield connection
            if backend in self._trusted:
                self._trusted[backend] = self._suspicion.raised
        finally:
            self._lent -= 1
            await self._give_back(connection)

    async def _give_back(self, connection: Connection) -> None:
        if self._pool is None:
            abandon(connection)
        else:
            await self._pool.release(connection)

    async def _acquire_trusted(self) -> Connection:
        """A connection that worked since suspicion was last raised; others are ended, each in its turn."""
        while True:
            connection = await self._acquire()
            if self._trusted.get(connection.get_server_pid(), -1) >= self._suspicion.raised:
                return connection
            abandon(connection)
            await self._give_back(connection)

    async def _acquire(self) -> Connection:
        try:
            return cast("Connection", await self._pool.acquire(timeout=self.patience))
        except TimeoutError as error:
            if self._lent < self._size:
                raise
            raise StoreError(
                f"{self._url.name}: all {self._size} connections of this process are in use, and none came "
                f"free within {self.patience:g} s; raise pool_size, or look for slow queries",
                transient=True,
                reason=StoreTrouble.POOL_EXHAUSTED,
            ) from error


class Shield:
    """Calls that go on when their caller is cancelled, and that ``settle`` waits for."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(coroutine)
        self._running.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # Whoever waited has it; nobody may be left to.

    async def settle(self, seconds: float) -> None:
        """Wait until every call has ended, at most so long, then cancel the rest."""
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=seconds)
            for task in late:
                task.cancel()
