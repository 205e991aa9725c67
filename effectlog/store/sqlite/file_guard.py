"""Keeps a SQLite file's locks against what SQLite can't see: plain closes, forks, links.

POSIX drops every lock that a process has on a file as soon as the process closes *any* descriptor of it, and
passes no lock on to a forked child (https://sqlite.org/howtocorrupt.html, sections 2.2 and 2.6). Another
process then takes itself for the last one that has the file open, and deletes the live WAL: what was
acknowledged is gone. So this process opens the file once, beside SQLite:

- that descriptor stays open for as long as anybody holds locks on the file;
- through it, the process holds read locks of its own on the bytes that SQLite locks before it deletes a WAL
  or truncates a WAL index. They are OFD locks (https://man7.org/linux/man-pages/man2/fcntl_locking.2.html):
  they belong to the open file, so neither a close of another descriptor nor a fork takes them away.

The invariant: while a store is open here, no process that goes through SQLite deletes its WAL or resets its
index. Only Linux has OFD locks; elsewhere nothing of effectlog's closes a descriptor too early, and others
must not either.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import sys
import threading
import time
from pathlib import Path

from effectlog.errors import StoreError, StoreRefused, StoreTrouble

if sys.platform != "win32":
    import fcntl

HEADER = b"SQLite format 3\x00"
_IN_WAL_MODE = (18, 2)
"""The header's byte for the kind of journal, and a WAL's value (https://sqlite.org/fileformat2.html)."""
_SHARED_RANGE = (0x40000002, 510)
"""Every reader holds a read lock on these bytes of the database.

Who closes last asks for a write lock on them.
"""
_INDEX_IN_USE = (128, 1)
"""The "deadman switch" of the WAL index: who finds it unlocked truncates the index."""
_FLOCK = struct.Struct("@hhqqi")
HAS_OFD_LOCKS = sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK")
_READING = (
    os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)
"""A FIFO is not waited for; what Windows lacks it does not need."""
_MODE_OF_NEW = 0o600
_PATIENCE = 5.0
"""Seconds that the first reader waits for the last one to write the WAL back."""


class _HeldFile:
    """One file that this process has open beside SQLite, while anything here may have locks on it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.users = 0
        self.locked = False

    def lock(self, start: int, length: int) -> None:
        """Take a read lock, once who closes or opens the file this very moment is done. Raises StoreError."""
        if not HAS_OFD_LOCKS or self.locked:
            return
        request = _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, start, length, 0)
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.fcntl(self.descriptor, fcntl.F_OFD_SETLK, request)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StoreError(
                        "another process has locked the whole SQLite file, as one that is stopped while it "
                        "closes it, or "
                        "that uses locking_mode=EXCLUSIVE; find it, and open the log again",
                        transient=True,
                    ) from None
                time.sleep(0.005)
            else:
                self.locked = True
                return

    def unlock(self) -> None:
        if self.locked:
            fcntl.fcntl(self.descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))
            self.locked = False

    @property
    def may_be_closed(self) -> bool:
        """Nobody, here or elsewhere, has locks on the file: a close takes none away."""
        if not HAS_OFD_LOCKS:
            return False
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        found = fcntl.fcntl(self.descriptor, fcntl.F_OFD_GETLK, asked)
        return bool(_FLOCK.unpack(found[: _FLOCK.size])[0] == fcntl.F_UNLCK)


class _HeldFiles:
    """The held files of this process, each once, whatever names it is opened by."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[tuple[int, int], _HeldFile] = {}

    def take(self, path: str, *, create: bool) -> _HeldFile:
        """The file under this path, held once more. Raises OSError."""
        with self._lock:
            self._sweep()
            with contextlib.suppress(FileNotFoundError):
                found = os.stat(path)  # noqa: PTH116 - as elsewhere here: descriptors, not paths
                if (known := self._files.get((found.st_dev, found.st_ino))) is not None:
                    known.users += 1
                    return known
            flags = _READING | (os.O_CREAT if create else 0)
            held = _HeldFile(os.open(path, flags, _MODE_OF_NEW))
            held.users = 1
            opened = os.fstat(held.descriptor)
            # One that was put in its place between the two looks is another file, and not known either.
            self._files[opened.st_dev, opened.st_ino] = held
            return held

    def drop(self, held: _HeldFile) -> bool:
        """Hold it once less. True if nobody here holds it any more."""
        with self._lock:
            held.users -= 1
            last = held.users == 0
            if last:
                held.unlock()
                self._sweep()
            return last

    def _sweep(self) -> None:
        """Close what nobody uses and nobody has locks on, such as a connection of the user's own."""
        for identity, held in list(self._files.items()):
            if held.users == 0 and held.may_be_closed:
                os.close(held.descriptor)
                del self._files[identity]

    def abandon(self) -> None:
        """In a forked child: it has no locks of its own yet, and must not keep those of a dead parent."""
        for held in self._files.values():
            with contextlib.suppress(OSError):
                os.close(held.descriptor)
        self._reset()


_held_files = _HeldFiles()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_held_files.abandon)


class FileGuard:
    """What one open store holds and checks of its file, its WAL and its WAL index."""

    def __init__(self, path: str) -> None:
        """Open the file, or make an empty one. Raises OSError, and StoreRefused for a file of two names."""
        self._path = path
        self._database = _held_files.take(path, create=True)
        self._index: _HeldFile | None = None
        self._wal: tuple[int, int] | None = None
        self._pid = os.getpid()
        self.broken = False
        """The files are no longer those that were opened."""
        try:
            self._refuse_what_is_no_file_of_its_own()
        except BaseException:
            self.release()
            raise

    def _refuse_what_is_no_file_of_its_own(self) -> None:
        found = os.fstat(self._database.descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise StoreRefused(f"{self._path} is no regular file; choose another path")
        names = found.st_nlink
        if names > 1:
            raise StoreRefused(
                f"{self._path} has {names} names (hard links), and SQLite keeps a log of its own beside "
                "each: what is written under one is not seen under the other, and the file is damaged. Remove the "
                "other names, or make a copy with 'effectlog backup'"
            )

    def first_bytes(self) -> bytes:
        """What tells a database from another file; empty for a new one.

        Read without opening the file again.
        """
        descriptor = self._database.descriptor
        if hasattr(os, "pread"):
            return os.pread(descriptor, 100, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)  # Windows.
        return os.read(descriptor, 100)

    def hold_database(self) -> None:
        """Let nobody delete the WAL from now on. Nothing to do where the file has none yet."""
        start = self.first_bytes()
        place, value = _IN_WAL_MODE
        if len(start) > place and start[place] == value:
            self._database.lock(*_SHARED_RANGE)

    def hold(self) -> None:
        """Hold the database and the index, and remember which files they are.

        To be called once SQLite has the index open: whoever comes first has to find it unlocked.
        Raises StoreError where they were taken away meanwhile.
        """
        self.hold_database()
        try:
            self._index = _held_files.take(f"{self._path}-shm", create=False)
        except FileNotFoundError:
            raise self._gone(f"{self._path}-shm") from None
        self._index.lock(*_INDEX_IN_USE)
        self._wal = _identity(f"{self._path}-wal")
        if self._wal is None:
            raise self._gone(f"{self._path}-wal")
        self.check()

    def check(self) -> None:
        """Raise StoreError once a file is no longer what its path names; before and after every commit."""
        database = self._database.descriptor
        if _identity(self._path) != _identity(database):
            raise self._gone(self._path)
        if _identity(f"{self._path}-wal") != self._wal:
            raise self._gone(f"{self._path}-wal")

    def _gone(self, path: str) -> StoreError:
        self.broken = True
        return StoreError(
            f"{path} was deleted, moved or replaced while the store was open: what is written now would be "
            "seen by nobody. End this process, see to it that the right file is there, and start again",
            transient=False,
            reason=StoreTrouble.STORE_GONE,
        )

    def release(self) -> bool:
        """Let the files go, once no connection of the store is open. True if no other log here has them open.

        Those of a store that was taken away stay held until the process ends, so that no connection that is
        left writes an old WAL into a new file.
        """
        if os.getpid() != self._pid:
            return False
        if self._wal is not None:
            with contextlib.suppress(StoreError):
                self.check()
        if self.broken:
            return False
        if self._index is not None:
            _held_files.drop(self._index)
            self._index = None
        return _held_files.drop(self._database)


def check_not_moved(guard: FileGuard | None) -> None:
    """As ``FileGuard.check``; a store in memory has no files."""
    if guard is not None:
        guard.check()


def _identity(path: str | int) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - before every commit, and pathlib's takes twice as long
    except OSError:
        return None
    return found.st_dev, found.st_ino


def real_path(path: str | os.PathLike[str]) -> str:
    """The file behind a path, links resolved: WAL, index and owners lie beside that one.

    Raises StoreRefused for links that lead in a circle.
    """
    try:
        return str(Path(path).resolve())
    except ValueError:
        return str(path)  # It has a NUL, which is refused at open.
    except (OSError, RuntimeError) as error:
        raise StoreRefused(f"{path} can't be followed to a file ({error}); choose another path") from error
