"""Danger (F186, F189): a task's file is edited between a kill and the restart, and its half-done run is stranded, or sends
again what it had sent.
"""

from __future__ import annotations

import asyncio
import signal
from typing import NamedTuple

import pytest

MODULE = """
import asyncio
from pathlib import Path
from effectlog import durable_task, effect

HERE = Path(__file__).parent


@effect(key="send:{what}")
def send(what: str) -> str:
    with (HERE / "sent").open("a") as file:
        file.write(what)
    return what


async def pause() -> None:
    while not (HERE / "go on").exists():
        await asyncio.sleep(0.01)


@durable_task
async def four() -> list[str]:
    first = [send("a"), send("b")]
    await pause()
    return [*first, send("c"), send("d")]
"""


class Edit(NamedTuple):
    """A change of the file, what the run returns then, what was sent in all, and what the worker says of it."""

    before: str
    after: str
    result: str
    sent: str
    told: tuple[str, ...] = ()


EDITS = {
    "an unrelated line": Edit("HERE =", "# A comment.\nLIMIT = 10\n\nHERE =", "abcd", "abcd"),
    "an effect before": Edit('[send("a"),', '[send("new"), send("a"),', "newabcd", "abnewcd"),
    "an effect between": Edit('"), send("b")', '"), send("new"), send("b")', "anewbcd", "abnewcd"),
    "an effect less": Edit(', send("b")', "", "acd", "abcd", ("send:b",)),
    "another order": Edit('send("a"), send("b")', 'send("b"), send("a")', "bacd", "abcd"),
    "another key": Edit('"send:{what}"', '"post:{what}"', "abcd", "ababcd", ("send:a", "send:b", "post:a")),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
async def test_what_was_sent_is_replayed_by_its_key_and_the_rest_follows_the_edit(terminal, edit):
    path = terminal.folder / "edited.py"
    path.write_text(MODULE, encoding="utf-8")
    run_id = terminal("enqueue", "edited:four", "[]").out.strip()
    async with terminal.log() as log:
        run = await log.get_run(run_id)
        with terminal.worker(module="edited"):
            while [effect.state for effect in (await run.record()).effects] != ["completed"] * 2:
                await asyncio.sleep(0.01)

    assert edit.before in MODULE
    path.write_text(MODULE.replace(edit.before, edit.after), encoding="utf-8")
    (terminal.folder / "go on").touch()
    with terminal.worker(module="edited") as restarted:
        async with terminal.log() as log:
            run = await log.get_run(run_id)
            result = await run.result(20)
            record = await run.record()
        restarted.send_signal(signal.SIGTERM)
        told = restarted.communicate(timeout=20)[1]

    assert "".join(result) == edit.result
    assert (terminal.folder / "sent").read_text(encoding="utf-8") == edit.sent
    assert [attempt.outcome for attempt in record.attempts] == ["expired", "succeeded"]
    assert ("EffectLogWarning" in told) == bool(edit.told), told
    assert all(f"'{key}'" in told for key in edit.told), told
    assert ("a changed key template" in told) == ("post:a" in edit.told), told
