"""What must be true of a SQLite file before effectlog trusts it, checked at open."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path

from effectlog.errors import ConfigurationError, StoreRefused
from effectlog.store.sqlite.file_guard import HEADER, FileGuard
from effectlog.store.statements import migrations, schema_refusal

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


def guarded(path: str) -> FileGuard:
    """Hold the file, or a new one, against what would lose records.

    Raises StoreRefused for what is no database.
    """
    try:
        guard = FileGuard(path)
        start = guard.first_bytes()
    except OSError as error:
        raise StoreRefused(f"{path} can't be read ({error.strerror}); make it readable") from error
    if start and not start.startswith(HEADER):
        guard.release()
        raise StoreRefused(f"{path} is not an SQLite database; choose another path")
    return guard


def roll_back_journal(path: str) -> None:
    """Let SQLite undo a change of the journal's mode that was cut off: it locks the whole file for that.

    It has to be done before the file is held, and by a connection that is gone when it is. A journal in use
    belongs to another process, which is making the store this moment.
    """
    if Path(f"{path}-journal").exists():
        with contextlib.closing(_existing(path)) as connection, contextlib.suppress(sqlite3.OperationalError):
            connection.execute("SELECT 1 FROM sqlite_schema").fetchone()


def _existing(path: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{Path(path).as_uri()}?mode=rw", uri=True, timeout=0, isolation_level=None)


def tidy(path: str) -> None:
    """Write what is left in the WAL into the file, and remove the WAL, where nobody else has the file open.

    By a connection that is made for it: one that was open before may have lost its locks to somebody's plain
    close.
    """
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(_existing(path)) as connection,
    ):
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("SELECT 1 FROM sqlite_schema").fetchone()


def _writable(place: Path) -> bool:
    # Root may write where nobody is meant to: a missing write bit is then the only sign.
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
    refusal = schema_refusal(applied, known[-1][0], name)
    if refusal is not None:
        raise StoreRefused(refusal)
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


def make_reader(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA query_only = ON")


def back_up(connection: sqlite3.Connection, target: str) -> None:
    """Copy the database as it is at one moment into a new file, durable on return.

    Raises ConfigurationError where the file exists: an open store must not be written over.
    """
    partial = Path(f"{target}.partial")
    for file in (Path(target), partial):
        if file.exists():
            raise ConfigurationError(
                f"{file} exists, and a backup goes into a new file; name another, or move that one"
            )
    partial.touch(mode=0o600, exist_ok=False)
    try:
        with contextlib.closing(sqlite3.connect(partial)) as copy:
            connection.backup(copy)  # In one step: in several it would begin anew with each write of others.
            copy.execute("PRAGMA journal_mode = DELETE")  # One file is the whole of it.
        with partial.open("rb+") as written:
            os.fsync(written.fileno())
        partial.rename(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
