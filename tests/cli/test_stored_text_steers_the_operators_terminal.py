"""Danger: a key, a name or an error out of the store moves the operator's cursor, forges lines, or runs when pasted."""

from __future__ import annotations

import json
import logging
import sqlite3
import subprocess
from contextlib import closing

import pytest

from effectlog import EffectLog, Retry, RunHeld, Unknown, durable_task, effect
from effectlog.cli.json_output import dumps

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b2J\r\x08\u202e\x7f'\\$(touch owned)`touch owned`"
EVIL_ID = "$(touch owned)';touch owned;\x1b]0;id\x07"


@effect(key=lambda text: f"charge:{text}", name=f"evil.{EVIL}", in_doubt="hold")
def charge(text: str) -> str:
    raise ConnectionError(f"no answer {text}")


@durable_task(name=f"evil.sell.{EVIL}", retry=Retry(max_attempts=1))
def sell(text: str) -> str:
    return charge(text)


@durable_task(name="evil.fails", retry=Retry(max_attempts=1))
def fails(text: str) -> str:
    raise ValueError(text + "\neffectlog: nothing needs a person")


def harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


@pytest.fixture
def held(terminal) -> str:
    """The id of a held run, beside others, in a store where whatever is a text is hostile."""
    with EffectLog(terminal.store) as log, log.sync.worker(name=f"worker {EVIL}"):
        run = log.sync.enqueue(sell.with_options(idempotency_key=f"key {EVIL}", correlation_id=EVIL), EVIL)
        with pytest.raises(RunHeld):
            run.result(timeout=20)
        dead = log.sync.enqueue(fails, EVIL)
        with pytest.raises(Exception, match="nothing needs"):
            dead.result(timeout=20)
        log.sync.enqueue(sell.with_options(delay=0.0), EVIL)
    with closing(sqlite3.connect(terminal.store)) as connection, connection:
        for table, column in (("runs", "id"), ("attempts", "run_id"), ("effects", "run_id")):
            connection.execute(
                f"UPDATE effectlog_{table} SET {column} = ? WHERE {column} = ?", (EVIL_ID, dead.id)
            )
        connection.execute(
            "INSERT INTO effectlog_workers VALUES (?, ?, ?, 1, 1, ?, NULL, ?)",
            (EVIL, EVIL, EVIL, 4e9, json.dumps([EVIL])),
        )
    return run.id


def test_no_output_holds_what_could_steer_a_terminal(terminal, held):
    commands = [
        ("runs",),
        ("runs", "--json"),
        ("runs", "--limit", "1", "--state", "failed"),
        ("show", held),
        ("show", held, "--json"),
        ("show", EVIL_ID),
        ("show", EVIL),
        ("doctor",),
        ("doctor", "--json"),
        ("resolve", held, EVIL, "--not-applied", "--by", "me"),
        ("resolve", held, f"charge:{EVIL}", "--applied", EVIL, "--by", "me"),
        ("resolve", held, f"charge:{EVIL}", "--applied", "1", "--if-requests", "7", "--by", "me"),
        ("resolve", held, f"charge:{EVIL}", "--not-applied", "--by", EVIL),
        ("retry", EVIL),
        ("retry", EVIL_ID),
        ("cancel", EVIL_ID),
        ("cancel", "--state", "succeeded"),
        ("enqueue", EVIL),
        ("enqueue", "shop_app:greet", EVIL),
        ("emit", EVIL, "1"),
        ("purge", "--older-than", EVIL),
        ("purge", f"--{EVIL}"),
        ("runs", "--state", EVIL),
        ("show", held, EVIL),
        (EVIL,),
        ("runs", "--store", EVIL),
    ]
    for command in commands:
        done = terminal.inside(*command)
        assert harmless(done.out + done.err), (command, done)
        assert not done.err.startswith("effectlog: nothing needs a person"), command
        assert "Traceback" not in done.err, (command, done)
    shown = terminal.inside("show", held)
    assert r"\x1b]0;owned" in shown.out


def test_a_suggested_command_means_the_key_and_nothing_else(terminal, held):
    suggestions = [
        line.strip()
        for run_id in (held, EVIL_ID)
        for line in terminal.inside("show", run_id).out.splitlines()
        if line.startswith("    effectlog ")
    ]
    assert len(suggestions) == 3
    for line in suggestions:
        script = f"effectlog() {{ printf '%s\\0' \"$@\"; }}; {line}"
        pasted = subprocess.run(
            ["bash", "-c", script], cwd=terminal.folder, capture_output=True, check=True, timeout=30
        ).stdout.decode()
        words = pasted.split("\0")
        assert f"charge:{EVIL}" in words or EVIL_ID in words, line
    assert not (terminal.folder / "owned").exists(), "a stored text ran as a command"


def test_json_for_programs_holds_no_control_character_and_loses_none():
    text = "".join(map(chr, range(0x110))) + "\u2028\u202e"
    assert dumps([text]).replace("\n", " ").isprintable()
    assert json.loads(dumps([text])) == [text]


def ask(text: str) -> Unknown:
    raise LookupError(f"no such {text}\nWARNING effectlog: the run was resolved")


@effect(key=lambda text: f"looked up {text}", in_doubt=ask, lookup_budget=0.2)
def looked_up(text: str) -> str:
    raise ConnectionError(f"no answer {text}")


@durable_task(name="evil.asks", retry=Retry(max_attempts=2, delay=0.0))
def asks(text: str) -> str:
    return looked_up(text)


def test_a_look_ups_error_reaches_a_log_spelled_out(tmp_path, capsys):
    logger, handler = logging.getLogger("effectlog"), logging.StreamHandler()
    handler.setFormatter(
        logging.Formatter("%(levelname)s %(message)s (%(effect_key)s)", defaults={"effect_key": ""})
    )
    logger.addHandler(handler)
    try:
        with EffectLog(tmp_path / "log.db") as log, log.sync.worker(), pytest.raises(RunHeld):
            log.sync.enqueue(asks, EVIL).result(timeout=20)
        logger.warning("effectlog: a clean line of %s", "words")
        try:
            raise LookupError(EVIL)
        except LookupError:
            logger.exception("effectlog: a classifier failed")
    finally:
        logger.removeHandler(handler)
    told = capsys.readouterr().err
    assert harmless(told)
    assert r"\x1b]0;owned" in told
    assert "can't tell" in told, "the look-up's error was not told, so nothing was tried"
    assert "\nWARNING effectlog: the run was resolved" not in told, "an error forged a line of the log"
    assert "WARNING effectlog: a clean line of words ()\n" in told
