"""Liveness on PostgreSQL: an owner is alive while its process's session holds an advisory lock.

A free lock alone proves little: sessions drop, servers restart. It proves death where the operating
system confirms that the process is gone, which only the same host can tell; elsewhere it must have
been free for a whole grace, in which a live owner would have taken it again. A lock that this server
(since its start) never saw held proves nothing. Doubt counts as alive: the lease decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from effectlog.errors import StoreError
from effectlog.store.postgres.errors import is_lost
from effectlog.store.postgres.schema import owner_key

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from effectlog.store.postgres.connections import Connection
    from effectlog.store.postgres.session import Session

_WAIT_UP = 5.0
_LOOK_AGAIN = 0.2
"""Seconds for which an answer is good enough: every worker asks all the time."""
_RELOCK = 2.0
_HIDDEN = "?"
_OVER = frozenset("ZX")


class PostgresLiveness:
    """Holds this process's owners, and tells which others are gone.

    Args:
        grace: seconds that the lock of an owner on another host must have been free.
        read, write: run one statement on the store's own connections.
    """

    def __init__(
        self,
        sql: Mapping[str, str],
        schema: str,
        *,
        grace: float,
        read: Callable[..., Awaitable[list[Any]]],
        write: Callable[..., Awaitable[None]],
    ) -> None:
        self._sql = sql
        self._schema = schema
        self._grace = grace
        self._read = read
        self._write = write
        self._held: set[str] = set()
        self._taken: set[str] = set()
        """Those of ``_held`` whose lock the present session has."""
        self._free_since: dict[tuple[str, float], float] = {}
        self._neighbours: dict[str, tuple[int, str]] = {}
        """Processes of this host whose owners were asked about: their end shows without the server."""
        self._last_look = (0.0, frozenset[str](), frozenset[str]())
        self._last_session: tuple[int, float] | None = None
        self.session: Session | None = None
        """None behind a transaction pooler, where no session can be held."""

    @property
    def holds(self) -> bool:
        """There are owners here whose locks must be held before an effect may start."""
        return self.session is not None and bool(self._held)

    async def hold(self, owner: str) -> None:
        """Take the owner's lock; raises StoreError if no session can be had within five seconds."""
        if self.session is None:
            return None
        self._held.add(owner)
        until = time.monotonic() + _WAIT_UP
        while await self.session.wait_up(until - time.monotonic()):
            if owner in self._taken:
                return None  # A session that was opened meanwhile took it.
            try:
                return await self.session.run(lambda connection: self._take(connection, owner))
            except Exception as error:
                if not is_lost(error):
                    self._held.discard(owner)
                    raise StoreError(
                        f"the owner {owner} can't be recorded: {error}", transient=False
                    ) from error
        self._held.discard(owner)
        raise StoreError(
            f"no PostgreSQL session could be kept open for {_WAIT_UP:g} s to show that {owner} is alive; the "
            f"server needs a free connection for it",
            transient=True,
        )

    async def drop(self, owner: str) -> None:
        if self.session is None or owner not in self._held:
            return
        self._held.discard(owner)
        self._taken.discard(owner)
        await self._write("remove_owner", owner)
        with contextlib.suppress(Exception):  # A session that broke has dropped the lock by itself.
            await self.session.run(lambda connection: self._release(connection, owner))

    async def _release(self, connection: Connection, owner: str) -> None:
        await connection.fetch(self._sql["drop_owner"], owner_key(self._schema, owner))

    async def take_again(self, connection: Connection) -> None:
        """Take every owner's lock on a new session; the old one is ended where it still lingers."""
        if self._last_session is not None:
            await connection.fetch(self._sql["end_old_session"], *self._last_session)
        facts = await connection.fetchrow(self._sql["session_facts"])
        self._last_session = (facts[0], facts[1])
        self._taken.clear()
        for owner in sorted(self._held):
            await self._take(connection, owner)

    async def _take(self, connection: Connection, owner: str) -> None:
        until = time.monotonic() + _RELOCK
        while not await connection.fetchval(self._sql["hold_owner"], owner_key(self._schema, owner)):
            if time.monotonic() > until:
                raise ConnectionError(f"the lock of {owner} is still held by an earlier session")
            await asyncio.sleep(0.02)
        host, pid, start = _this_process()
        await connection.fetch(
            self._sql["save_owner"], owner, owner_key(self._schema, owner), host, pid, start
        )
        self._taken.add(owner)

    def close(self) -> None:
        """The session is closed, so nobody is held alive here any more; leases run out."""
        self.session = None
        self._held.clear()
        self._taken.clear()

    async def dead(self, owners: frozenset[str], *, rebooted: bool = False) -> frozenset[str]:
        """Those of ``owners`` that are certainly gone.

        ``rebooted`` changes nothing: leases are in the server's clock, which no reboot makes unreadable.
        """
        del rebooted
        others = owners - self._held
        if self.session is None or not others:
            return frozenset()
        now = time.monotonic()
        looked_at, asked, dead_then = self._last_look
        if others <= asked and now - looked_at < _LOOK_AGAIN and not self._has_ended(others - dead_then):
            return dead_then & others
        dead = await self._look(others)
        self._last_look = (now, others, dead)
        return dead

    def _has_ended(self, owners: frozenset[str]) -> bool:
        """Whether a process of one of them is gone, so that its lock is or soon will be free."""
        asked = (self._neighbours[owner] for owner in owners if owner in self._neighbours)
        return any(process_start(pid) not in (start, _HIDDEN) for pid, start in asked)

    async def _look(self, others: frozenset[str]) -> frozenset[str]:
        found = await self._read("look_at_owners", sorted(others))
        now = time.monotonic()
        here = _this_process()[0]
        self._neighbours = {row[0]: (row[2], row[3]) for row in found if here and row[1] == here}
        rows = [row for row in found if row[5]]
        free = {(row[0], row[4]): self._free_since.get((row[0], row[4]), now) for row in rows}
        self._free_since = {
            key: since for key, since in self._free_since.items() if key[0] not in others
        } | free
        return frozenset(
            row[0] for row in rows if self._is_dead(row[1], row[2], row[3], now - free[row[0], row[4]])
        )

    def _is_dead(self, host: str, pid: int, start: str, free_for: float) -> bool:
        here = _this_process()[0]
        if host and host == here:
            return process_start(pid) not in (start, _HIDDEN)
        return free_for >= self._grace

    async def forget(self, owner: str) -> None:
        if self.session is not None:
            # If its lock is not free, it came back after all.
            await self._write("forget_owner", owner)


def _this_process() -> tuple[str, int, str]:
    pid = os.getpid()
    return _host(), pid, process_start(pid) or ""


@cache
def _host() -> str:
    """Names where process ids mean the same: this boot, in this namespace; empty if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def process_start(pid: int) -> str | None:
    """When the process began, in ticks since boot; None once it is gone, a zombie included."""
    fields = _stat(Path(f"/proc/{pid}/stat"))
    if fields is None:
        return _HIDDEN if _exists(pid) else None
    if fields[0] in _OVER and not _has_live_thread(pid):
        return None
    return fields[19]


def _exists(pid: int) -> bool:
    """Whether there is such a process, also where ``/proc`` hides other people's."""
    if sys.platform == "win32":
        return True  # Signal 0 is Ctrl-C there.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _has_live_thread(pid: int) -> bool:
    """A main thread that ended first looks like a zombie while other threads go on."""
    stats = (_stat(file) for file in Path(f"/proc/{pid}/task").glob("*/stat"))
    return any(fields is not None and fields[0] not in _OVER for fields in stats)


def _stat(file: Path) -> list[str] | None:
    """The fields after the command name, which may itself hold anything (see proc(5))."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()
