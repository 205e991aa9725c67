"""Danger: whoever can write a row of the store names a module in it, and a tool imports that for them."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from types import ModuleType

import pytest

from effectlog import EffectLog, ErrorInfo, RunHeld
from effectlog.error_info import declared_failure

MODULE = "from pathlib import Path\nPath('ran').touch()\n"
VALUE = b'{"!":"object","c":"chosen:Thing","v":{"x":1}}'


@pytest.fixture
def held(terminal) -> str:
    """A held run in whose rows every name is one of a module that lies beside the store."""
    import shop_app

    with EffectLog(terminal.store) as log, log.sync.worker():
        run = log.sync.enqueue(shop_app.sell, "A-1")
        with pytest.raises(RunHeld):
            run.result(timeout=20)
    (terminal.folder / "chosen.py").write_text(MODULE, encoding="utf-8")
    with closing(sqlite3.connect(terminal.store)) as connection, connection:
        connection.execute("UPDATE effectlog_effects SET name = 'chosen.charge', error_type = 'chosen.Error'")
        connection.execute(
            "UPDATE effectlog_runs SET task = 'chosen.sell', error_type = 'chosen.Error', args = ?", (VALUE,)
        )
    return run.id


def test_no_command_imports_what_a_row_names(terminal, held):
    value = '{"!":"object","c":"chosen:Thing","v":{"x":1}}'
    decision = ("charge:A-1", "--applied", value, "--by", "Ada")
    for command in (
        ("runs",),
        ("show", held),
        ("show", held, "--json"),
        ("doctor",),
        ("resolve", held, *decision),
        ("show", held),
        ("cancel", held),
        ("retry", held),
    ):
        done = terminal(*command)
        assert "Traceback" not in done.err, (command, done)
        assert not (terminal.folder / "ran").exists(), command
    assert terminal("resolve", held, *decision, "--module", "chosen").code == 1, "it was decided before"
    assert (terminal.folder / "ran").exists(), "a module named on the command line was not imported"


def test_no_stored_error_makes_a_module_load_its_lazy_names(monkeypatch):
    asked: list[str] = []
    lazy = ModuleType("lazy_names")
    vars(lazy)["__getattr__"] = asked.append
    monkeypatch.setitem(sys.modules, "lazy_names", lazy)
    raised = declared_failure(ErrorInfo("lazy_names.Chosen", "no"), (LookupError,), "run", "key")
    assert isinstance(raised, LookupError)
    assert asked == []
