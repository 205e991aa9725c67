"""The folder beside a SQLite store in which its owners' locks lie.

Whoever may write it can make live owners look dead. So the invariant: it is used only while it is a folder of
the user whose the store's file is (or root's), and nobody may write it who may not write that file.
Everything in it is opened relative to the folder that was checked, never through a link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from effectlog.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class _Rights(NamedTuple):
    """Who may read and write the store's file."""

    uid: int
    gid: int
    mode: int

    def hand_on(self, descriptor: int, mode: int) -> None:
        """As SQLite does with its files: whoever may use the store's file may use what lies beside it."""
        with contextlib.suppress(OSError):
            os.fchown(descriptor, self.uid if os.geteuid() == 0 else -1, self.gid)
        if os.fstat(descriptor).st_gid != self.gid:
            mode &= ~stat.S_IRWXG  # That is another group than the store's.
        os.fchmod(descriptor, mode)


def _rights_of(store: str | None) -> _Rights:
    with contextlib.suppress(OSError):
        if store is not None:
            found = Path(store).stat()
            return _Rights(found.st_uid, found.st_gid, found.st_mode & 0o666)
    return _Rights(os.geteuid(), os.getegid(), 0o600)


class OwnersFolder:
    """Opens, makes and removes the folder of one store."""

    def __init__(self, path: str, store: str | None) -> None:
        self._path = Path(path)
        self._store = store

    def __str__(self) -> str:
        return str(self._path)

    @contextlib.contextmanager
    def opened(self, *, make: bool = False) -> Iterator[int]:
        """A descriptor of the folder.

        Raises FileNotFoundError if it is not there, StoreError if it can't be trusted.
        """
        rights = _rights_of(self._store)
        if make:
            self._make(rights)
        try:
            folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise
        except PermissionError as error:
            raise self._not_writable() from error
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                self._refuse("is no folder, or a link to one")
            raise StoreError(f"{self._path} can't be opened: {error.strerror}", transient=True) from error
        try:
            self._check(os.fstat(folder), rights)
            yield folder
        finally:
            os.close(folder)

    def _make(self, rights: _Rights) -> None:
        if self._path.exists():
            return
        if os.geteuid() not in (rights.uid, 0):
            raise StoreError(
                f"{self._path} is not there, and only the user whose the store's file is can make it: open "
                f"the log once "
                f"as that user, after the file was made writable for others",
                transient=False,
            )
        try:
            self._path.mkdir(0o700)
        except FileExistsError:
            return
        except PermissionError as error:
            raise self._not_writable() from error
        # Until then it is this user's alone, so nobody has put anything else in its place.
        folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            rights.hand_on(folder, rights.mode | (rights.mode & 0o444) >> 2)
        finally:
            os.close(folder)

    def _check(self, found: os.stat_result, rights: _Rights) -> None:
        if found.st_uid not in (rights.uid, 0):
            self._refuse("belongs to another user than the store's file")
        writers = found.st_mode & _OTHERS_WRITE
        if writers & ~rights.mode or (writers & stat.S_IWGRP and found.st_gid != rights.gid):
            self._refuse("may be written by more users than the store's file")

    def _refuse(self, what: str) -> NoReturn:
        raise StoreError(
            f"{self._path} {what}, so somebody else could make live workers look dead. See who put it there, "
            f"remove it "
            f"while no worker runs, and start again: effectlog makes it as it should be",
            transient=False,
        )

    def _not_writable(self) -> StoreError:
        return StoreError(
            f"{self._path} can't be written by this user, so nobody could tell whether this process is "
            f"alive; "
            f"give the folder the same owner, group and rights as the store's file",
            transient=False,
        )

    def create(self, folder: int, name: str) -> int:
        """A new file in the opened folder, with the store's own rights, open for writing."""
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            descriptor = os.open(name, flags, 0o600, dir_fd=folder)
        except PermissionError as error:
            raise self._not_writable() from error
        rights = _rights_of(self._store)
        rights.hand_on(descriptor, rights.mode)
        return descriptor

    def remove(self, name: str) -> None:
        """Remove a file and, unless several users share the store, the folder after the last one."""
        with contextlib.suppress(OSError, StoreError), self.opened() as folder:
            os.unlink(name, dir_fd=folder)
        with contextlib.suppress(OSError):
            if not _rights_of(self._store).mode & _OTHERS_WRITE:
                self._path.rmdir()

    def make_if_shared(self) -> None:
        """Make the folder where only this user can and others, who write the store, need it."""
        rights = _rights_of(self._store)
        with contextlib.suppress(OSError, StoreError):
            if rights.mode & _OTHERS_WRITE:
                self._make(rights)
