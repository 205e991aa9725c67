"""Danger: a row, or what somebody put beside the store, deletes a file, hangs a worker or makes the living look dead."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import stat
import sys
import tempfile
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from effectlog import EffectLog, durable_task
from effectlog.errors import StoreError
from effectlog.store import commands as c
from effectlog.store.sqlite.liveness import liveness_beside
from effectlog.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock; leases decide there")

OWNER = "a" * 32
NOBODY = 65534


@durable_task
async def harmless() -> str:
    return "done"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store's file, of this user alone, with the owners' folder as it should be."""
    path = tmp_path / "log.db"
    path.touch(0o600)
    path.chmod(0o600)
    folder(path).mkdir(0o700)
    return path


def folder(path: Path) -> Path:
    return path.with_name(f"{path.name}-owners")


def is_dead(path: Path, owner: str = OWNER, *, rebooted: bool = False) -> bool:
    return bool(asyncio.run(liveness_beside(str(path)).dead(frozenset({owner}), rebooted=rebooted)))


def hold(path: Path, owner: str = OWNER) -> None:
    asyncio.run(liveness_beside(str(path)).hold(owner))


@pytest.mark.parametrize("owner", ["../precious.txt", "/precious", "../log.db", "..", ".", ""])
async def test_an_owners_name_in_a_row_reaches_no_file(tmp_path: Path, owner: str) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    path = tmp_path / "log.db"
    async with EffectLog(path, check_store=False) as log:
        run = await log.enqueue(harmless)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(
                "UPDATE effectlog_runs SET state = 'running', attempt = 1, owner = ?, lease_expires = 0, "
                "lease_clock = ?",
                (owner.replace("/precious", str(precious)), SqliteStore(path).clock.identity),
            )
            connection.execute(
                "INSERT INTO effectlog_workers VALUES (?, 'w', 'h', 1, 1, 0, 0, '[]')",
                (owner.replace("/precious", str(precious)),),
            )
            connection.commit()
        async with log.worker():
            assert await run.result(10) == "done"
        await log.administration.engine.read(SqliteStore(path).liveness.forget(owner))
    assert precious.read_text() == "mine"
    assert path.exists()


def test_no_owner_begins_under_such_a_name(path: Path) -> None:
    with pytest.raises(StoreError, match="no owner's name"):
        hold(path, "../other")


@pytest.mark.parametrize("name", [OWNER, "../pipe"])
def test_a_pipe_hangs_nobody(path: Path, name: str) -> None:
    pipe = folder(path) / name
    os.mkfifo(pipe)
    answers: list[bool] = []
    asking = threading.Thread(target=lambda: answers.append(is_dead(path, name)), daemon=True)
    asking.start()
    asking.join(10)
    if asking.is_alive():
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    assert answers == [False]


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_what_is_no_file_of_its_own_proves_no_death(path: Path, kind: str) -> None:
    if kind == "link":
        path.with_name("other").touch()
        (folder(path) / OWNER).symlink_to(path.with_name("other"))
    else:
        (folder(path) / OWNER).mkdir()
    assert not is_dead(path)
    assert not is_dead(path, rebooted=True)


@pytest.mark.parametrize("planted", ["pipe", "link", "locked"])
def test_beginning_neither_waits_nor_follows(path: Path, planted: str) -> None:
    fresh, other = folder(path) / f".{OWNER}", path.with_name("other")
    other.touch(0o640)
    if planted == "pipe":
        os.mkfifo(fresh)
    elif planted == "link":
        fresh.symlink_to(other)
    else:
        fresh.touch()
    with (fresh if planted == "locked" else other).open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        beginning = threading.Thread(target=hold, args=(path,), daemon=True)
        beginning.start()
        beginning.join(10)
        assert not beginning.is_alive()
    found = (folder(path) / OWNER).lstat()
    assert stat.S_ISREG(found.st_mode)
    assert not (folder(path) / OWNER).samefile(other)


@pytest.mark.parametrize(
    ("mode", "of_store", "refused"),
    [
        (0o777, 0o600, True),
        (0o770, 0o640, True),
        (0o777, 0o660, True),
        (0o755, 0o644, False),
        (0o777, 0o666, False),
    ],
)
def test_a_folder_that_more_may_write_than_the_store_is_refused(
    path: Path, mode: int, of_store: int, refused: bool
) -> None:
    path.chmod(of_store)
    folder(path).chmod(mode)
    (folder(path) / OWNER).touch()
    if not refused:
        assert is_dead(path)
        hold(path, "b" * 32)
        return
    for use in (hold, is_dead):
        with pytest.raises(StoreError, match="may be written by more users"):
            use(path)


def test_a_link_in_place_of_the_folder_is_refused(path: Path) -> None:
    folder(path).rename(path.with_name("elsewhere"))
    folder(path).symlink_to(path.with_name("elsewhere"))
    for use in (hold, is_dead):
        with pytest.raises(StoreError, match="no folder, or a link"):
            use(path)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """The path of a store where every user of the machine may make files."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name) / "log.db"


async def test_a_folder_of_another_user_stops_the_worker_that_would_trust_it(reachable: Path) -> None:
    folder(reachable).mkdir(0o755)
    os.chown(folder(reachable), NOBODY, NOBODY)
    async with EffectLog(reachable, check_store=False) as log:
        with pytest.raises(StoreError, match="belongs to another user"):
            async with log.worker():
                pass


def test_what_root_puts_beside_a_users_store_is_that_users(reachable: Path) -> None:
    reachable.touch()
    os.chown(reachable, NOBODY, NOBODY)
    reachable.chmod(0o600)
    hold(reachable)
    for made, mode in ((folder(reachable), 0o700), (folder(reachable) / OWNER, 0o600)):
        found = made.stat()
        assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (NOBODY, NOBODY, mode)


async def test_the_owner_of_a_shared_store_makes_the_folder_that_others_may_not(reachable: Path) -> None:
    reachable.touch()
    reachable.chmod(0o666)
    store = SqliteStore(reachable)
    await store.open()
    await store.close()
    liveness = liveness_beside(str(reachable))
    await liveness.hold(OWNER)
    await liveness.drop(OWNER)
    assert stat.S_IMODE(folder(reachable).stat().st_mode) == 0o777, "the last one to leave takes it along"


@pytest.mark.parametrize("there", [None, 0o640, 0o600, 0o664])
async def test_a_new_store_is_its_users_alone_and_one_that_is_there_keeps_its_mode(
    tmp_path: Path, there: int | None
) -> None:
    path = tmp_path / "log.db"
    mask = os.umask(0)
    try:
        if there is not None:
            path.touch()
            path.chmod(there)
        async with EffectLog(path) as log, log.worker():
            await (await log.enqueue(harmless)).result(10)
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
            (lock,) = folder(path).iterdir()
            modes["lock"] = stat.S_IMODE(lock.stat().st_mode)
    finally:
        os.umask(mask)
    mode = there or 0o600
    assert modes.pop("log.db-owners") == mode | (mode & 0o444) >> 2
    assert modes == dict.fromkeys(("log.db", "log.db-wal", "log.db-shm", "lock"), mode)


async def test_a_claim_of_a_dead_owner_still_moves_at_once(path: Path) -> None:
    # The guard must not cost what liveness is for.
    (folder(path) / OWNER).touch()
    store = SqliteStore(path)
    await store.open()
    assert await store.liveness.dead(frozenset({OWNER})) == {OWNER}
    assert await store.apply([c.RemoveWorker(OWNER)]) == [c.Done()]
    await store.close()
