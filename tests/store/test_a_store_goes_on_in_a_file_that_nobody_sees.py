"""Danger: the file was deleted, moved or replaced under an open store.

What is acknowledged is seen by nobody.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from effectlog import ConfigurationError, EffectLog, Retry, StoreError, StoreRefused, durable_task, effect

if TYPE_CHECKING:
    from collections.abc import Callable

sent: list[int] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    sent.clear()


@effect(key="send:{number}")
def send(number: int) -> None:
    sent.append(number)


@durable_task(retry=Retry(max_attempts=1))
def sends_twice(take_away: bool, path: str) -> None:
    send(1)
    if take_away:
        Path(path).unlink()
    send(2)


def deleted(path: Path) -> None:
    path.unlink()


def moved(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def moved_with_its_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def replaced(path: Path) -> None:
    copy = Path(shutil.copy(path, path.with_name("copy.db")))
    copy.replace(path)


def robbed_of_its_wal(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


@pytest.mark.parametrize("what", [deleted, moved, moved_with_its_folder, replaced, robbed_of_its_wal])
def test_nothing_is_acknowledged_any_more(tmp_path: Path, what: Callable[[Path], None]) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    with EffectLog(folder / "log.db") as log:
        log.sync.run(sends_twice, False, "")
        what(folder / "log.db")
        for _ in range(2):
            with pytest.raises(StoreError, match="was deleted, moved or replaced"):
                log.sync.enqueue(sends_twice, False, "")
        with pytest.raises(StoreError, match="was deleted, moved or replaced"):
            log.sync.run(sends_twice, False, "")
    assert sent == [1, 2]


def test_no_effect_starts_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one's outcome is tried until it is too late for it, which is made short here."""
    monkeypatch.setattr("effectlog.engine.queue.LATE", 0.2)
    path = tmp_path / "log.db"
    with EffectLog(path, lease=1.0) as log, pytest.raises(StoreError, match="was deleted, moved or replaced"):
        log.sync.run(sends_twice, True, str(path))
    assert sent == [1]


@pytest.mark.parametrize(
    ("store", "named"),
    [
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:///orders.db?timeout=5", "write %3F"),
        ("~/orders.db", "'~' stands for nothing here"),
        ("orders\0.db", "NUL"),
        ("a" * 300, "too long"),
    ],
)
def test_a_path_that_means_something_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((StoreRefused, ConfigurationError), match=named), EffectLog(store):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_name_of_a_file_may_hold_what_urls_may_not(tmp_path: Path) -> None:
    path = tmp_path / "100% ü?#.db"
    with EffectLog(path) as log:
        log.sync.run(sends_twice, False, "")
    with EffectLog(f"sqlite:///{tmp_path}/100%25%20%C3%BC%3F%23.db") as log:
        assert len(log.sync.list_runs()) == 1
