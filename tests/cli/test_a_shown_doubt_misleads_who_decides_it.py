"""Danger: what ``show`` prints about a doubt fails when it is pasted, or looks as if it were settled already."""

from __future__ import annotations

import shlex

import pytest

from effectlog import NotApplied, RunHeld, durable_task, effect


@effect(key="{key}", in_doubt="hold")
def lost(key: str) -> str:
    raise ConnectionError("no answer")


@durable_task
def loses(key: str) -> str:
    return lost(key)


async def held_run(log, key):
    run = await log.enqueue(loses, key)
    with pytest.raises(RunHeld):
        await run.result(timeout=20)
    return run


@pytest.mark.parametrize("key", ["-1", "--by", "it's \"$(x)"])
@pytest.mark.parametrize("which", [0, 1])
async def test_every_shown_command_works_as_it_is_pasted(terminal, key, which):
    async with terminal.log() as log, log.worker():
        run = await held_run(log, key)
    shown = terminal.inside("show", run.id).out
    lines = [line.strip() for line in shown.splitlines() if line.startswith("    effectlog resolve ")]
    command = shlex.split(lines[which])[1:]
    done = terminal.inside(*(part.replace("JSON", '"x"') for part in command))
    assert done.code == 0, done.err


async def test_a_decision_about_an_earlier_request_does_not_look_like_one_about_this_one(terminal):
    async with terminal.log() as log, log.worker():
        run = await held_run(log, "k")
        await log.resolve(run.id, "k", NotApplied(), by="ann", evidence="looked into the mailbox")
        with pytest.raises(RunHeld):
            await run.result(timeout=20)
    shown = terminal.inside("show", run.id).out
    assert "decided before as not applied, by ann; that was about an earlier request" in shown
    assert "looked into the mailbox" in shown
    assert "decided by" not in shown
