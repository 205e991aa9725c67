"""What must be true of a SQLite file before effectlog trusts it, checked at open."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
from pathlib import Path

from effectlog.errors import StoreError, StoreRefused
from effectlog.store.protocol import STORE_GONE
from effectlog.store.statements import migrations

_HEADER = b"SQLite format 3\x00"

# File systems on which SQLite's locks or shared memory can't be trusted between hosts
# (https://sqlite.org/wal.html: "WAL does not work over a network filesystem").
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "afs", "ceph", "lustre", "gpfs", "glusterfs"}
    | {"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "vboxsf", "prl_fs"}
)
OLDEST_SQLITE = (3, 38, 0)
"""The first with the ``->>`` that the statements use."""
MOUNT_TABLE = Path("/proc/self/mountinfo")


def check_place(path: str) -> None:
    """Refuse a path that can't hold a trustworthy store, before SQLite touches it."""
    if "\0" in path:
        raise StoreRefused(f"{path!r} can't be a file's path: it has a NUL; choose another path")
    try:
        _check_place(Path(path).absolute())
    except OSError as error:  # Such as a name that is too long.
        raise StoreRefused(f"{path} can't hold a store ({error.strerror}); choose another path") from error


def _check_place(file: Path) -> None:
    folder = file.parent
    if not folder.is_dir():
        hint = (
            "; '~' stands for nothing here: expand it, as Path.expanduser does" if "~" in file.parts else ""
        )
        raise StoreRefused(f"{file}: the folder {folder} does not exist; create it first{hint}")
    if file.is_dir():
        raise StoreRefused(f"{file} is a folder; name a file in it, such as {file / 'effectlog.db'}")
    file_system = file_system_of(folder)
    if file_system in NETWORK_FILE_SYSTEMS:
        raise StoreRefused(
            f"{file} lies on a network or shared file system ({file_system}), where SQLite's locks don't "
            f"hold between machines; use a local disk, or PostgreSQL for several machines"
        )
    for place in (folder, file):
        if place.exists() and not _writable(place):
            raise StoreRefused(f"{place} is read-only; make it writable, or choose another path")
    try:
        start = _first_bytes(file)
    except OSError as error:
        raise StoreRefused(f"{file} can't be read ({error.strerror}); make it readable") from error
    if start not in (b"", _HEADER):
        raise StoreRefused(f"{file} is not an SQLite database; choose another path")


def create(path: str) -> None:
    """Make a file that is not there, for its user alone; what SQLite puts beside a file takes that file's mode."""
    with contextlib.suppress(
        OSError, AttributeError
    ):  # SQLite says better what is wrong; Windows has other rights.
        try:
            # Not opened: closing any descriptor of a file drops the locks that this process's SQLite has on it.
            os.mknod(path, 0o600 | stat.S_IFREG)
        except PermissionError:  # macOS leaves that to root.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _first_bytes(file: Path) -> bytes:
    """What tells a database from another file; nothing for a file that is empty or not there yet."""
    if not file.exists():
        return b""
    with file.open("rb") as stream:
        return stream.read(len(_HEADER))


def _writable(place: Path) -> bool:
    # Root may write where no one is meant to: a missing write bit is then the only sign.
    return os.access(place, os.W_OK) and place.stat().st_mode & 0o222 != 0


def file_system_of(folder: Path) -> str | None:
    """The type of the file system that ``folder`` lies on, where the mount table can tell."""
    try:
        lines = MOUNT_TABLE.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    best: tuple[int, str | None] = (-1, None)
    target = os.path.realpath(folder)
    for line in lines:
        fields, _, tail = line.partition(" - ")
        mount = fields.split(" ")[4].encode().decode("unicode_escape")
        inside = target == mount or target.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= best[0]:
            best = (len(mount), tail.split(" ")[0])
    return best[1]


def prepare(connection: sqlite3.Connection, name: str) -> None:
    """Make the connection durable and bring the schema up to date; runs on the connection's thread."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreRefused(
            f"{name} needs SQLite {'.'.join(map(str, OLDEST_SQLITE))} or newer and this Python has "
            f"{sqlite3.sqlite_version}; use a newer Python, or PostgreSQL"
        )
    journal = _set_wal(connection)
    if journal not in ("wal", "memory"):
        raise StoreRefused(f"{name}: SQLite can't use its write-ahead log there (it uses '{journal}')")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # macOS alone: elsewhere a sync reaches the disk anyway.
    connection.execute("PRAGMA foreign_keys = ON")
    if _is_current(connection):
        return  # Without the write lock, so that a store that somebody keeps locked can at least be read.
    connection.execute("BEGIN IMMEDIATE")
    try:
        _migrate(connection, name)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _set_wal(connection: sqlite3.Connection) -> str:
    # Switching to WAL needs the file alone and does not wait for it, so several openers have to.
    (wait_ms,) = connection.execute("PRAGMA busy_timeout").fetchone()
    deadline = time.monotonic() + max(wait_ms / 1000, 30.0)
    while True:
        try:
            (journal,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return str(journal)


def _is_current(connection: sqlite3.Connection) -> bool:
    table = "SELECT 1 FROM sqlite_schema WHERE name = 'effectlog_migrations'"
    if not connection.execute(table).fetchall():
        return False
    ((applied,),) = connection.execute("SELECT max(number) FROM effectlog_migrations").fetchall()
    return bool(applied == migrations("sqlite")[-1][0])


def _migrate(connection: sqlite3.Connection, name: str) -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS effectlog_migrations "
        "(number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at REAL NOT NULL, mark TEXT)"
    )
    (applied,) = connection.execute("SELECT coalesce(max(number), 0) FROM effectlog_migrations").fetchone()
    known = migrations("sqlite")
    if applied > known[-1][0]:
        raise StoreRefused(
            f"{name} was written by a newer effectlog (schema {applied}, this one knows {known[-1][0]}); "
            f"upgrade effectlog here"
        )
    for number, file_name, script in known:
        if number > applied:
            for statement in _split(script):
                connection.execute(statement)
            connection.execute(
                "INSERT INTO effectlog_migrations (number, name, applied_at) VALUES (?, ?, ?)",
                (number, file_name, time.time()),
            )


def _split(script: str) -> list[str]:
    """The statements of a script: ``executescript`` would commit the transaction that guards them."""
    statements, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements


class OpenFiles:
    """The files of an open store, as they were found: SQLite itself goes on writing to what nobody else sees."""

    def __init__(self, *paths: str) -> None:
        self._found = {path: _identity(path) for path in paths}

    def check(self) -> None:
        """Raise StoreError once a file is no longer what its path names."""
        for path, found in self._found.items():
            if _identity(path) != found:
                raise StoreError(
                    f"{path} was deleted, moved or replaced while the store was open: what is written now would be seen "
                    f"by nobody. End this process, see to it that the right file is there, and start again",
                    transient=False,
                    reason=STORE_GONE,
                )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - before every commit, and pathlib's takes twice as long
    except OSError:
        return None
    return found.st_dev, found.st_ino


def make_reader(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA query_only = ON")


def size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
