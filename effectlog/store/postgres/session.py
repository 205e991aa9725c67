"""The one connection of a process whose *session* matters: it listens for changes and keeps owners' locks.

It is kept open for as long as the store is: pinged, noticed when dead, opened again with growing
pauses. After every opening the owners' locks are taken again before anybody is told that it is up.
The invariant: while ``up`` is set, this process answered for its locks within the last few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import time
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from effectlog.store.postgres.connections import abandon, time_limit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from effectlog.store.postgres.connections import Connection

logger = logging.getLogger("effectlog")
T = TypeVar("T")

PING = 1.0
"""Seconds between looks at the connection; an answer may take twice as long. Well within any grace."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_TOLD_AFTER, _TOLD_AGAIN = 5.0, 60.0
"""Seconds without a session after which people are told, and told again."""

_sessions: WeakSet[Session] = WeakSet()


def _abandon_all() -> None:
    for session in list(_sessions):
        session.abandon_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)


class Session:
    """Keeps a connection open; ``run`` uses it, ``announce`` tells other processes of a change.

    Args:
        connect: opens a connection.
        channel: what to listen on.
        token: names this process in announcements, so that it doesn't wake itself.
        notify: the statement that announces.
        on_open: called with each new connection before it counts as up.
        on_loss: called when one that was up has broken or fallen silent.
        on_news: called when another process announced something, or may have while we were away.
        described: a failure as people may see it, with the server's address and without a password.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        *,
        channel: str,
        token: str,
        notify: str,
        on_open: Callable[[Connection], Awaitable[None]],
        on_loss: Callable[[], None],
        on_news: Callable[[], None],
        described: Callable[[BaseException], str],
    ) -> None:
        self._connect = connect
        self._channel = channel
        self._token = token
        self._notify = notify
        self._on_open = on_open
        self._on_loss = on_loss
        self._on_news = on_news
        self._absence = _Absence(described)
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._using = asyncio.Lock()
        self._up = asyncio.Event()
        self._wake = asyncio.Event()
        self._pending = False
        self.attempts = self.opened = 0
        """How often a connection was tried, and had."""
        _sessions.add(self)

    @property
    def up(self) -> bool:
        """The connection was alive a moment ago, and holds every lock it should."""
        return self._up.is_set()

    async def wait_up(self, seconds: float) -> bool:
        """Wait until ``up``, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._up.wait()
        return self.up

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._keep())

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        self._drop_connection()

    def abandon_in_child(self) -> None:
        """Close the socket without a word: a forked child must not keep a dead parent looking alive."""
        transport: Any = getattr(self._connection, "_transport", None)
        socket = transport.get_extra_info("socket") if transport is not None else None
        if socket is not None:
            with contextlib.suppress(OSError):
                os.close(socket.fileno())

    def announce(self) -> None:
        """Tell the other processes, soon, that something changed. Cheap, and lost if the server is away."""
        self._pending = True
        self._wake.set()

    async def run(self, use: Callable[[Connection], Awaitable[T]], *, limit: float = PING * 2) -> T:
        """Use the connection for one short thing; raises ConnectionError where there is none."""
        async with self._using:
            connection = self._connection
            if connection is None or not self.up:
                raise ConnectionError("the session is being opened again")
            with time_limit(connection, limit):
                return await use(connection)

    async def _keep(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._open()
                pause = _FIRST_PAUSE
                await self._watch()
            except Exception as error:
                logger.debug("effectlog: the PostgreSQL session is opened again: %s", type(error).__name__)
                self._absence.goes_on(error)
            finally:
                self._drop_connection()
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter is no secret
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _open(self) -> None:
        self.attempts += 1
        connection = self._connection = await self._connect()
        self.opened += 1
        connection.add_termination_listener(self._on_end)
        with time_limit(connection, PING * 4):
            await connection.add_listener(self._channel, self._on_notification)
            await self._on_open(connection)
        self._up.set()
        self._absence.ends()
        self._on_news()  # Whatever was announced while nobody listened.

    async def _watch(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PING):
                    await self._wake.wait()
            self._wake.clear()
            pending, self._pending = self._pending, False
            try:
                await self.run(self._tell if pending else _ping, limit=PING * 2)
            except Exception:
                self._on_loss()
                raise

    async def _tell(self, connection: Connection) -> None:
        await connection.fetch(self._notify, self._channel, self._token)

    def _drop_connection(self) -> None:
        self._up.clear()
        connection, self._connection = self._connection, None
        if connection is not None:
            abandon(connection)

    def _on_end(self, *_: object) -> None:
        self._up.clear()
        self._wake.set()

    def _on_notification(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        if payload != self._token:
            self._on_news()


class _Absence:
    """The time without a session: nothing starts here meanwhile, and somebody may have to look why."""

    def __init__(self, described: Callable[[BaseException], str]) -> None:
        self._described = described
        self._since: float | None = None
        self._tell_at = 0.0

    def goes_on(self, error: BaseException) -> None:
        now = time.monotonic()
        if self._since is None:
            self._since, self._tell_at = now, now + _TOLD_AFTER
        elif now >= self._tell_at:
            self._tell_at = now + _TOLD_AGAIN
            logger.warning(
                "effectlog: the session by which this process shows that it is alive can't be had again for "
                "%.0f s, so it "
                "claims no run and starts no effect: %s. It needs a free connection on the server",
                now - self._since,
                self._described(error),
            )

    def ends(self) -> None:
        now = time.monotonic()
        if self._since is not None and now - self._since > _TOLD_AFTER:
            logger.info("effectlog: the session is there again after %.0f s", now - self._since)
        self._since = None


async def _ping(connection: Connection) -> None:
    await connection.execute("SELECT")
