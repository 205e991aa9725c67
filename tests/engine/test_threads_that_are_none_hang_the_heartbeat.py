"""Danger: gevent or eventlet has replaced this process's threads or what they wait with, and opening a log waits for ever."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from effectlog import ConfigurationError, EffectLog

if TYPE_CHECKING:
    from pathlib import Path

# What they patch, the tests of this process need; gevent is tried in a process of its own.
PATCHERS = {
    "gevent": ("gevent.monkey", "is_module_patched"),
    "eventlet": ("eventlet.patcher", "is_monkey_patched"),
}


def pretend(monkeypatch: pytest.MonkeyPatch, patcher: str, *, patched: bool) -> None:
    module, look_up_arguments = PATCHERS[patcher]
    stand_in = ModuleType(module)
    setattr(stand_in, look_up_arguments, lambda what: patched and what.startswith("thread"))
    monkeypatch.setitem(sys.modules, module, stand_in)


@pytest.mark.parametrize("patcher", PATCHERS)
async def test_a_log_is_not_opened_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, patcher: str
) -> None:
    pretend(monkeypatch, patcher, patched=True)
    with pytest.raises(ConfigurationError, match=f"{patcher} has patched .* without monkey patching"):
        async with EffectLog(tmp_path / "log.db"):
            pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("patcher", PATCHERS)
def test_that_they_are_imported_is_no_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, patcher: str
) -> None:
    pretend(monkeypatch, patcher, patched=False)
    with EffectLog(tmp_path / "log.db") as log:
        assert log.sync.list_runs() == []


OPENING = """
import sys
from gevent import monkey
{patch}
from effectlog import ConfigurationError, EffectLog
try:
    with EffectLog(sys.argv[1], check_store=False) as log:
        print(len(log.sync.list_runs()))
except ConfigurationError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ("monkey.patch_all()", "gevent has patched this process's threading, "),
        ("monkey.patch_all(thread=False)", "gevent has patched this process's "),
        ("monkey.patch_select()", "gevent has patched this process's select"),
        ("monkey.patch_socket()", "gevent has patched this process's socket"),
        ("monkey.patch_time()", "gevent has patched this process's time"),
        ("", "0"),
    ],
)
def test_gevent_is_noticed_whatever_it_patched(tmp_path: Path, patch: str, said: str) -> None:
    program = OPENING.format(patch=patch)
    asked = [sys.executable, "-c", program, str(tmp_path / "log.db")]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith(said), done.stderr
