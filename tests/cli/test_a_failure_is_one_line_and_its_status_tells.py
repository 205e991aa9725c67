"""Danger: a script goes on after a command that failed, or an operator reads a traceback at night."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def one_line(err: str) -> bool:
    return err.startswith("effectlog: ") and err.count("\n") == 1 and "Traceback" not in err


@pytest.mark.parametrize(
    "command",
    [
        ("runs",),
        ("show", "some-run"),
        ("doctor",),
        ("resolve", "some-run", "key", "--not-applied", "--by", "me"),
        ("retry", "some-run"),
        ("cancel", "some-run"),
        ("purge", "--older-than", "30d"),
    ],
    ids=lambda command: command[0],
)
def test_a_command_that_reads_does_not_make_a_store(terminal, command):
    done = terminal.inside(*command)
    assert (done.code, done.out) == (1, "")
    assert one_line(done.err), done.err
    assert terminal.store in done.err
    assert not Path(terminal.store).exists()


REFUSALS = {
    ("enqueue", "shop_app:total", "[]"): "missing a required argument: 'day'",
    ("enqueue", "shop_app:total", '["2026-11-02", {"sku": 1}]'): "argument 'lines' of task shop_app.total",
    (
        "enqueue",
        "shop_app:nothing",
        "[]",
    ): "it has fails, fails_thrice, greet, sell, total, waits, waits_kindly",
    ("worker", "nosuchmodule"): "No module named 'nosuchmodule'",
    ("worker", "shop_app.py"): "shop_app.py is a file; give the module's name, as in shop_app",
    ("enqueue", "./app/shop.py:sell", "[]"): "give the module's name, as in app.shop",
    ("emit", "nobody.listens", "1"): "no task is subscribed",
    ("show", "no-such-run"): "no run no-such-run",
}


@pytest.mark.parametrize(("command", "expected"), REFUSALS.items(), ids=lambda part: " ".join(part)[:40])
def test_what_python_and_the_log_refuse_is_said_in_one_line(terminal, command, expected):
    terminal.inside("migrate")
    done = terminal.inside(*command)
    assert done.code == 1
    assert one_line(done.err), done.err
    assert expected in done.err


@pytest.mark.parametrize("status", [0, 5])
def test_a_module_that_ends_the_process_is_a_failure_like_others(terminal, status):
    (terminal.folder / "leaves.py").write_text(f"import sys\n\nsys.exit({status})\n")
    done = terminal("worker", "leaves")
    assert done.code == 1
    assert one_line(done.err), done.err
    assert f"SystemExit: {status}" in done.err
    assert "leaves.py, line 3" in done.err


def test_a_module_that_fails_is_named_with_the_line_that_failed(terminal):
    (terminal.folder / "broken.py").write_text("import os\n\n1 / 0\n")
    done = terminal("enqueue", "broken:task", "[]")
    assert done.code == 1
    assert one_line(done.err), done.err
    assert "ZeroDivisionError" in done.err
    assert "broken.py, line 3" in done.err


@pytest.mark.parametrize(
    "command",
    [
        ("enqueue", "shop_app:total", "{broken"),
        ("enqueue", "shop_app:total", '"text"'),
        ("runs", "--state", "unheard-of"),
        ("resolve", "run", "key", "--by", "me"),
        ("retry",),
        ("purge", "--older-than", "soon"),
    ],
    ids=" ".join,
)
def test_a_wrong_call_is_told_from_a_failure(terminal, command):
    done = terminal.inside(*command)
    assert done.code == 2
    assert "Usage: effectlog" in done.err
    assert "Traceback" not in done.err


def test_no_store_at_all_is_a_wrong_call(terminal):
    done = terminal("runs", env={"EFFECTLOG_STORE": ""})
    assert done.code == 2
    assert "--store" in done.err


def test_a_store_in_memory_is_refused_because_nothing_would_be_kept(terminal):
    done = terminal("enqueue", "shop_app:fails", "[1]", "--store", ":memory:")
    assert done.code == 1
    assert one_line(done.err)


COMMANDS = ["demo", "worker", "enqueue", "emit", "runs", "show", "resolve", "retry", "cancel", "purge"]
COMMANDS += ["migrate", "doctor", "check-store"]


def test_both_ways_to_call_it_are_the_same(terminal):
    script = Path(sys.executable).with_name("effectlog")
    assert script.exists(), "install the package: pip install -e '.[dev]'"
    options = {"cwd": terminal.folder, "env": terminal.env, "capture_output": True, "text": True}
    found = subprocess.run([script, "runs"], check=False, **options)
    module = terminal("runs")
    assert (found.returncode, found.stdout, found.stderr) == (module.code, module.out, module.err)


def test_every_promised_command_is_there(terminal):
    helped = terminal.inside("--help").out
    assert [command for command in COMMANDS if f"\n  {command} " not in helped] == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
@pytest.mark.parametrize("asked", [("--help",), ("--version",), ("runs", "--help")], ids=" ".join)
def test_a_help_that_can_not_be_written_is_one_line_too(asked):
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "effectlog", *asked]
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert done.returncode == 1
    assert one_line(done.stderr), done.stderr
    assert "No space left" in done.stderr
