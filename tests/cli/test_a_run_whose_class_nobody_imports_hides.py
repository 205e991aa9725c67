"""Danger: a recorded result is of a class that no worker imports.

The run is tried for ever, and is shown as merely pending.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from effectlog import EffectLog, Retry, durable_task, effect
from effectlog.effects import replay
from effectlog.model import UNREADABLE_HERE
from effectlog.worker import outcome as stop_reason

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = """
from dataclasses import dataclass

@dataclass
class Label:
    code: str
"""


@pytest.fixture
def labels() -> Iterator[Any]:
    """A module that a process of before had imported."""
    module = sys.modules["labels_of_before"] = ModuleType("labels_of_before")
    exec(SOURCE, module.__dict__)
    yield module
    sys.modules.pop("labels_of_before", None)


@pytest.fixture(params=["sqlite", "postgres"])
def stored(request, terminal):
    if request.param == "sqlite":
        return terminal
    return dataclasses.replace(terminal, url=request.getfixturevalue("postgres_database"))


_made: list[Any] = []


@effect(key="label")
async def label():  # type: ignore[no-untyped-def]  # an annotation would name the class
    return _made[-1]


@durable_task(name="ships", retry=Retry(delay=0.0))
async def ships() -> str:
    found = await label()
    if _made:
        _made.clear()
        raise ConnectionError("after the label")
    return str(found.code)


@pytest.mark.paced
async def test_it_is_named_with_its_class_and_tried_ever_less_often(stored, labels, monkeypatch):
    monkeypatch.setattr(replay, "_FIRST_PAUSE", 0.1)
    monkeypatch.setattr(stop_reason, "GIVE_BACK_DELAY", 0.0)
    _made.append(labels.Label("A-1"))
    async with EffectLog(stored.store) as log:
        run = await log.enqueue(ships)
        async with log.worker():
            while _made:
                await asyncio.sleep(0.005)
            del sys.modules["labels_of_before"]
            while len((await run.record()).attempts) < 6:
                await asyncio.sleep(0.005)
        examined = stored.inside("doctor", "--json")
        attempts = (await run.record()).attempts
        begun = [
            attempt.started_at
            for attempt in attempts
            if attempt.error and attempt.error.type == UNREADABLE_HERE
        ]
        pauses = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(begun)]
        assert pauses[3] > 2 * pauses[1] > 4 * 0.1, pauses

        assert examined.code == 1
        problem, *_ = (line for line in examined.json["problems"] if "can't go on" in line)
        assert f"1 pending run can't go on in any worker that tried, such as {run.id} of ships" in problem
        assert "no class 'labels_of_before:Label' is known" in problem
        listed = stored.inside("runs").out
        assert re.search(r"pending +ships .* given back: a stored", listed), listed
        shown = stored.inside("show", run.id).out
        assert re.search(r"^ *2-\d+ +released \d+ times", shown, re.MULTILINE), shown
        assert len(re.findall("released", shown)) == 1

        sys.modules["labels_of_before"] = labels
        async with log.worker():
            assert await run.result(20) == "A-1"
    assert stored.inside("doctor").code == 0
