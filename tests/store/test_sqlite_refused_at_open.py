"""A file that can't be trusted is refused at open with advice, not found out in the middle of a charge."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from effectlog.errors import StoreRefused
from effectlog.store.sqlite import file as sqlite_file
from effectlog.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path


async def refusal(path: Path) -> str:
    store = SqliteStore(path)
    with pytest.raises(StoreRefused) as refused:
        await store.open()
    assert path.name in str(refused.value)
    assert store._writer is store._reader is store._watcher is None, "a refused store keeps connections open"
    return str(refused.value)


async def make(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.close()


async def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "effectlog.db"
    await make(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO effectlog_migrations VALUES (9999, 'of tomorrow', 0, NULL)")
        connection.commit()
    assert "upgrade effectlog" in await refusal(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT max(number) FROM effectlog_migrations").fetchone() == (9999,)


@pytest.mark.parametrize("what", ["file", "folder"])
async def test_what_is_read_only_is_refused_even_for_root(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "effectlog.db"
    await make(path)
    place = path if what == "file" else folder
    place.chmod(0o444 if what == "file" else 0o555)
    try:
        store = SqliteStore(path)
        with pytest.raises(StoreRefused, match=f"{place.name} is read-only; make it writable"):
            await store.open()
    finally:
        place.chmod(0o755)


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "9p", "virtiofs", "fuse.sshfs"])
async def test_a_network_file_system_is_refused_before_anything_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = tmp_path / "a share"
    folder.mkdir()
    table = tmp_path / "mountinfo"
    mounted = str(folder).replace(" ", "\\040")
    table.write_text(
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        f"40 22 0:35 / {mounted} rw,relatime shared:2 - {kind} server:/export rw\n"
    )
    monkeypatch.setattr(sqlite_file, "MOUNT_TABLE", table)
    message = await refusal(folder / "effectlog.db")
    assert kind in message
    assert "local disk" in message
    assert list(folder.iterdir()) == []
    await make(tmp_path / "local.db")


async def test_without_a_mount_table_the_place_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "MOUNT_TABLE", tmp_path / "none")
    await make(tmp_path / "effectlog.db")
    assert (tmp_path / "effectlog.db").exists()


async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but somebody's notes")
    assert "not an SQLite database" in await refusal(path)
    assert path.read_text() == "not a database, but somebody's notes"


async def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "effectlog.db"
    await make(path)
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 5000)
    assert "backup" in await refusal(path)


async def test_a_missing_folder_or_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    assert "does not exist; create it first" in await refusal(tmp_path / "none" / "effectlog.db")
    assert "is a folder" in await refusal(tmp_path)


async def test_an_sqlite_that_is_too_old_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "OLDEST_SQLITE", (99, 0, 0))
    assert "needs SQLite 99.0.0 or newer" in await refusal(tmp_path / "effectlog.db")


async def test_a_file_without_write_ahead_log_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "_set_wal", lambda connection: "delete")
    assert "write-ahead log" in await refusal(tmp_path / "effectlog.db")
