"""Danger: gevent or eventlet has replaced this process's threads, and opening a log waits for ever."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from effectlog import ConfigurationError, EffectLog

if TYPE_CHECKING:
    from pathlib import Path

# Neither can be tried here: what they patch, the tests of this process need.
PATCHERS = {
    "gevent": ("gevent.monkey", "is_module_patched"),
    "eventlet": ("eventlet.patcher", "is_monkey_patched"),
}


def pretend(monkeypatch: pytest.MonkeyPatch, patcher: str, *, patched: bool) -> None:
    module, question = PATCHERS[patcher]
    stand_in = ModuleType(module)
    setattr(stand_in, question, lambda what: patched and what.startswith("thread"))
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
