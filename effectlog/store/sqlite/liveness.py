"""Liveness on one machine: an owner is alive while it holds an ``flock`` on a file of its own.

The kernel frees the lock the moment the process is gone, however it went, and keeps it while the process
is merely stopped. ``flock`` belongs to the open file, so two owners in one process see each
other (POSIX ``lockf`` belongs to the process and would not). A file is put in place already
locked, so a file that can be locked proves that its owner is gone. A missing file proves nothing
(somebody may have tidied up), unless the machine has been restarted since.

The files lie in one folder beside the store, which ``OwnersFolder`` guards. Owners' names come out of rows,
so one that no owner of ours can have is never looked for.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from typing import TYPE_CHECKING
from weakref import WeakSet

from effectlog.errors import StoreError
from effectlog.store.sqlite.owners_folder import OwnersFolder

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from effectlog.store.protocol import Liveness

_TRIES = 100
_OWNER = re.compile(r"[0-9a-f]{32}")
_LOOK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def liveness_beside(path: str) -> Liveness:
    """Who is alive among the owners of a store in this file; Windows has no flock, so leases decide there."""
    if sys.platform == "win32":
        return NoLiveness()
    return FlockLiveness(f"{path}-owners", store=path)


_holders: WeakSet[FlockLiveness] = WeakSet()


def _abandon_all() -> None:
    for holder in list(_holders):
        holder.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)


def share_folder(path: str) -> None:
    """Make the owners' folder of a shared store: users who don't own the file could not make it."""
    if sys.platform != "win32":
        OwnersFolder(f"{path}-owners", path).make_if_shared()


class NoLiveness:
    """Where nothing can prove an owner's death, only its lease ends it."""

    async def hold(self, owner: str) -> None:
        """Nothing to hold."""

    async def drop(self, owner: str) -> None:
        """Nothing to drop."""

    async def dead(self, owners: frozenset[str], *, rebooted: bool = False) -> frozenset[str]:
        return owners if rebooted else frozenset()

    async def forget(self, owner: str) -> None:
        """Nothing was left."""


class FlockLiveness:
    """One locked file an owner, in one folder beside the store."""

    def __init__(self, folder: str, *, store: str | None = None) -> None:
        self._folder = OwnersFolder(folder, store)
        self._held: dict[str, int] = {}
        _holders.add(self)

    def abandon(self) -> None:
        """Close the files without a word: in a forked child they would keep a dead parent looking alive."""
        for descriptor in self._held.values():
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._held.clear()

    async def hold(self, owner: str) -> None:
        if not _OWNER.fullmatch(owner):
            raise StoreError(f"{owner!r} is no owner's name: 32 hexadecimal digits, as of UUID.hex")
        for _ in range(_TRIES):
            try:
                with self._folder.opened(make=True) as folder:
                    self._held[owner] = self._put_in_place(folder, owner)
            except FileNotFoundError:
                continue  # The last owner to leave has removed the folder in between.
            except OSError as error:
                raise StoreError(
                    f"{self._folder} can't hold the lock of a worker: {error}", transient=True
                ) from error
            return
        raise StoreError(
            f"{self._folder} can't be made, or is removed again and again; see what lies beside it"
        )

    def _put_in_place(self, folder: int, owner: str) -> int:
        fresh = f".{owner}"
        descriptor = self._folder.create(folder, fresh)
        try:
            # Nobody else can have it; where somebody has, waiting for it would wait for ever.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(fresh, owner, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    async def drop(self, owner: str) -> None:
        descriptor = self._held.pop(owner, None)
        if descriptor is not None:
            self._folder.remove(owner)
            os.close(descriptor)

    async def forget(self, owner: str) -> None:
        if _OWNER.fullmatch(owner):
            self._folder.remove(owner)

    async def dead(self, owners: frozenset[str], *, rebooted: bool = False) -> frozenset[str]:
        others = owners - self._held.keys()
        try:
            with self._folder.opened() as folder:
                return frozenset(owner for owner in others if _is_dead(folder, owner, missing=rebooted))
        except FileNotFoundError:
            return others if rebooted else frozenset()


def _is_dead(folder: int, owner: str, *, missing: bool) -> bool:
    """Whether the owner's lock is free; ``missing`` is the answer where there is no file."""
    if not _OWNER.fullmatch(owner):
        return missing
    try:
        descriptor = os.open(owner, os.O_RDONLY | _LOOK, dir_fd=folder)  # Another user's, too.
    except FileNotFoundError:
        return missing
    except OSError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return False
        # Shared, so that two who look at the same time don't take each other for the owner.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
