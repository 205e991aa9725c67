"""Danger: POSIX drops SQLite's locks with any close and any fork, and the next process deletes the live WAL."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import APPS

from effectlog import ConfigurationError, EffectLog, StoreError, StoreRefused, durable_task
from effectlog.store.sqlite.file_guard import HAS_OFD_LOCKS

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = APPS / "stray_close_program.py"
pytestmark = pytest.mark.skipif(
    not HAS_OFD_LOCKS, reason="only Linux has locks that a plain close leaves alone"
)


@durable_task(name="kept")
def kept() -> int:
    return 1


def command_line(path: Path) -> None:
    """Another process, which takes itself for the last one if it finds no locks."""
    subprocess.run(
        [sys.executable, "-m", "effectlog", "runs", "--store", str(path)], check=True, capture_output=True
    )


def stored(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        ((count,),) = connection.execute("SELECT count(*) FROM effectlog_runs").fetchall()
        return int(count)


def another_log(path: Path) -> None:
    with EffectLog(path):
        pass


def another_log_by_a_link(path: Path) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    with EffectLog(link) as log:
        log.sync.enqueue(kept)


def a_backup_script(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        if file.is_file():
            shutil.copy(file, path.parent / f"copy of {file.name}")


def a_connection_of_ones_own(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT * FROM effectlog_runs").fetchall()


def a_log_that_is_refused(path: Path) -> None:
    with pytest.raises(ConfigurationError):
        EffectLog(path, lease=-1)
    with EffectLog(path), EffectLog(path, check_store=False):
        pass


def many_logs_in_threads(path: Path) -> None:
    threads = [threading.Thread(target=another_log, args=(path,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def a_forked_child(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # From 3.12 on: this process has threads.
        pid = os.fork()
    if pid == 0:
        path.read_bytes()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize(
    "stray",
    [
        another_log,
        another_log_by_a_link,
        a_backup_script,
        a_connection_of_ones_own,
        a_log_that_is_refused,
        many_logs_in_threads,
        a_forked_child,
    ],
)
def test_what_happens_beside_an_open_log_takes_nothing_away(
    tmp_path: Path, stray: Callable[[Path], None]
) -> None:
    path = tmp_path / "o.db"
    with EffectLog(path) as log:
        log.sync.run(kept)
        stray(path)
        command_line(path)
        log.sync.run(kept)
        command_line(path)
    assert stored(path) >= 2


@durable_task(name="unmoved.opens_another_log")
def opens(path: str) -> None:
    another_log(Path(path))
    command_line(Path(path))


def test_a_log_opened_inside_a_task_takes_nothing_away(tmp_path: Path) -> None:
    path = tmp_path / "o.db"
    with EffectLog(path) as log:
        log.sync.run(opens, str(path))
        log.sync.run(kept)
    assert stored(path) == 2


@pytest.mark.parametrize("parent_stays", [True, False])
def test_a_log_in_a_forked_child_is_held_by_the_child_itself(tmp_path: Path, parent_stays: bool) -> None:
    """SQLite in the child takes the parent's locks for its own.

    The parent may be gone long before the child.
    """
    path = tmp_path / "o.db"
    reading, writing = os.pipe()
    log = EffectLog(path)
    log.__enter__()
    log.sync.run(kept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            with EffectLog(path) as own:
                for _ in range(20):
                    own.sync.enqueue(kept)
                os.write(writing, b"open")
                while os.getppid() != 1 and not (tmp_path / "go on").exists():
                    pass
                for _ in range(20):
                    own.sync.enqueue(kept)
            os._exit(0)
        os._exit(1)
    assert os.read(reading, 4) == b"open"
    if not parent_stays:
        log.__exit__(None, None, None)
    command_line(path)
    (tmp_path / "go on").touch()
    assert os.waitpid(pid, 0)[1] == 0
    if parent_stays:
        log.__exit__(None, None, None)
    for end in (reading, writing):
        os.close(end)
    assert stored(path) == 41


def test_a_store_that_was_taken_away_writes_nothing_into_the_new_one(tmp_path: Path) -> None:
    """Its WAL belongs to a file that nobody sees: a checkpoint of it at close would damage the file that is there now."""
    path, copy = tmp_path / "o.db", tmp_path / "copy.db"
    with EffectLog(path) as log:
        log.sync.run(kept)
    shutil.copy(path, copy)
    with EffectLog(path) as log:
        log.sync.run(kept)
        for beside in ("-wal", "-shm"):
            Path(f"{path}{beside}").unlink()
        copy.replace(path)
        with EffectLog(path) as new:
            new.sync.run(kept)
            with pytest.raises(StoreError, match="was deleted, moved or replaced"):
                log.sync.run(kept)
            log.__exit__(None, None, None)
            command_line(path)
            new.sync.run(kept)
    assert stored(path) == 3


def test_a_file_of_two_names_is_refused(tmp_path: Path) -> None:
    path, second = tmp_path / "o.db", tmp_path / "second.db"
    with EffectLog(path) as log:
        log.sync.run(kept)
    os.link(path, second)
    for name in (path, second):
        with pytest.raises(StoreRefused, match="hard links"):
            EffectLog(name).__enter__()
    second.unlink()
    with EffectLog(path) as log:
        log.sync.run(kept)


def test_a_link_and_its_file_are_one_store(tmp_path: Path) -> None:
    """Its WAL and its owners' folder too, or peers by the other name would see neither records nor deaths."""
    path, link = tmp_path / "o.db", tmp_path / "deep" / "link.db"
    link.parent.mkdir()
    link.symlink_to(path)
    with EffectLog(link) as log, log.sync.worker():
        assert log.sync.run(kept) == 1
        assert (tmp_path / "o.db-owners").is_dir()
        assert list(link.parent.iterdir()) == [link]
    link.unlink()
    link.symlink_to(link)
    with pytest.raises(StoreRefused, match="choose another path"):
        EffectLog(link)


def test_a_closed_store_is_one_file_and_its_descriptors_are_closed(tmp_path: Path) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    with EffectLog(tmp_path / "0.db") as log:
        log.sync.run(kept)
    before = descriptors()
    for number in range(20):
        with EffectLog(tmp_path / f"{number}.db") as log:
            log.sync.run(kept)
    assert descriptors() <= before + 1
    assert not list(tmp_path.glob("*-wal"))
    assert not list(tmp_path.glob("*-shm"))


def test_a_backup_is_whole_while_others_write(tmp_path: Path) -> None:
    path = tmp_path / "o.db"
    with EffectLog(path) as log:
        before = [log.sync.enqueue(kept).id for _ in range(50)]
        writing = threading.Event()
        over = threading.Event()

        def write() -> None:
            while not over.is_set():
                log.sync.enqueue(kept)
                writing.set()

        thread = threading.Thread(target=write)
        thread.start()
        assert writing.wait(60)
        log.sync.backup(tmp_path / "copy.db")
        over.set()
        thread.join()
        with pytest.raises(ConfigurationError, match=r"copy\.db exists"):
            log.sync.backup(tmp_path / "copy.db")
        with pytest.raises(ConfigurationError, match=r"o\.db exists"):
            log.sync.backup(path)
        with pytest.raises(StoreError, match="can't be written"):
            log.sync.backup(tmp_path / "missing" / "copy.db")
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    with EffectLog(tmp_path / "copy.db") as copy:
        assert {run.id for run in copy.sync.list_runs(limit=10_000)} >= set(before)
    assert stored(tmp_path / "copy.db") >= 50


def test_the_command_line_makes_the_same_backup(tmp_path: Path) -> None:
    path, copy = tmp_path / "o.db", tmp_path / "copy.db"
    with EffectLog(path) as log:
        log.sync.run(kept)
        command = [sys.executable, "-m", "effectlog", "backup", str(copy), "--store", str(path)]
        subprocess.run(command, check=True, capture_output=True)
        again = subprocess.run(command, check=False, capture_output=True, text=True)
    assert again.returncode == 1
    assert "exists" in again.stderr
    assert stored(copy) == 1


@pytest.mark.parametrize(
    "rounds", [20, pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(900)])]
)
def test_kills_closes_forks_and_commands_at_random_lose_nothing(tmp_path: Path, rounds: int) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path), str(rounds), "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {str(seed): [] for seed in range(1, rounds + 1)}, done.stderr


def test_a_creation_that_was_cut_off_is_rolled_back_at_the_next_open(tmp_path: Path) -> None:
    """SQLite locks the whole file for that, which our own lock on it must not prevent."""
    path, other = tmp_path / "o.db", tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(other, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE a (b)")
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(100):
            connection.execute("INSERT INTO a VALUES (?)", ("x" * 3_000,))
        for beside in ("", "-journal"):
            shutil.copy(f"{other}{beside}", f"{path}{beside}")
    header = bytearray(path.read_bytes())
    header[18:20] = (
        b"\2\2"  # The switch to a WAL is one write of the header, and its journal is gone after it.
    )
    path.write_bytes(header)
    with EffectLog(path) as log:
        log.sync.run(kept)
    assert stored(path) == 1


def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.db")
    with pytest.raises(StoreRefused, match="no regular file"):
        EffectLog(tmp_path / "fifo.db").__enter__()
