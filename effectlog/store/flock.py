"""Liveness on one machine: an owner is alive while it holds an ``flock`` on a file of its own.

The kernel frees the lock the moment the process is gone, however it went, and keeps it while the process
is merely stopped. ``flock`` belongs to the open file, so two owners in one process see each
other (POSIX ``lockf`` belongs to the process and would not). A file is put in place already
locked, so a file that can be locked proves that its owner is gone. A missing file proves nothing
(somebody may have tidied up), unless the machine has been restarted since.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from effectlog.errors import StoreError

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from effectlog.store.protocol import Liveness


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
        self._folder = Path(folder)
        self._store = store
        self._held: dict[str, int] = {}
        _holders.add(self)

    def abandon(self) -> None:
        """Close the files without a word: in a forked child they would keep a dead parent looking alive."""
        for descriptor in self._held.values():
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._held.clear()

    async def hold(self, owner: str) -> None:
        fresh = self._folder / f".{owner}"
        descriptor = self._create(fresh)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        fresh.rename(self._folder / owner)
        self._held[owner] = descriptor

    def _create(self, file: Path) -> int:
        while True:
            self._make_folder()
            try:
                return os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
            except FileNotFoundError:
                continue  # The last owner to leave has removed the folder in between.
            except PermissionError as error:
                raise StoreError(
                    f"{self._folder} can't be written by this user, so nobody could tell whether this process is alive; "
                    f"give the folder the same owner, group and rights as the store's file",
                    transient=False,
                ) from error

    def _make_folder(self) -> None:
        """As SQLite does with its files: whoever may use the store's file may use what lies beside it."""
        try:
            self._folder.mkdir()
        except FileExistsError:
            return
        if self._store is not None:
            with contextlib.suppress(OSError):
                mode = Path(self._store).stat().st_mode & 0o666
                self._folder.chmod(mode | (mode & 0o444) >> 2)

    async def drop(self, owner: str) -> None:
        descriptor = self._held.pop(owner, None)
        if descriptor is not None:
            self._remove(owner)
            os.close(descriptor)

    async def forget(self, owner: str) -> None:
        self._remove(owner)

    def _remove(self, owner: str) -> None:
        with contextlib.suppress(OSError):
            (self._folder / owner).unlink()
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    async def dead(self, owners: frozenset[str], *, rebooted: bool = False) -> frozenset[str]:
        return frozenset(owner for owner in owners if self._is_dead(owner, missing=rebooted))

    def _is_dead(self, owner: str, *, missing: bool) -> bool:
        """Whether the owner's lock is free; ``missing`` is the answer where there is no file."""
        if owner in self._held:
            return False
        try:
            descriptor = os.open(self._folder / owner, os.O_RDONLY | os.O_CLOEXEC)  # Another user's, too.
        except FileNotFoundError:
            return missing
        except OSError:
            return False
        try:
            # Shared, so that two who look at the same time don't take each other for the owner.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True
