"""Danger: an object that holds an effect or a task as its callback can't be copied or sent to another process."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from effectlog import EffectLog, durable_task, effect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FORMS: tuple[Callable[[Any], Any], ...] = (
    copy.copy,
    copy.deepcopy,
    lambda value: pickle.loads(pickle.dumps(value)),
    lambda value: pickle.loads(pickle.dumps(value, protocol=2)),
)


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name
        self.callback = self.sell

    @effect(key="sell:{item}")
    def sell(self, item: str) -> str:
        return f"{self.name} sold {item}"

    @effect(key="open")
    @classmethod
    def open(cls) -> str:
        return cls.__name__

    @effect(key="close")
    @staticmethod
    def close() -> str:
        return "closed"

    @durable_task
    @classmethod
    def count(cls) -> str:
        return cls.__name__

    @durable_task
    @staticmethod
    def clean() -> str:
        return "clean"


@durable_task
def report(day: str) -> str:
    return day


@pytest.mark.parametrize("twin_of", FORMS)
def test_a_bound_method_copies_and_pickles(twin_of: Callable[[Any], Any]) -> None:
    assert twin_of(Shop("a").sell)("tea") == "a sold tea"
    assert twin_of(Shop.open)() == "Shop"
    assert twin_of(Shop.close)() == "closed"
    assert twin_of(Shop.count)() == "Shop"
    assert twin_of(Shop.clean)() == "clean"
    assert twin_of(Shop.sell)(Shop("b"), "tea") == "b sold tea"


@pytest.mark.parametrize("twin_of", FORMS[1:])
def test_an_object_that_holds_its_own_method_gets_a_callback_of_its_own(
    twin_of: Callable[[Any], Any],
) -> None:
    first = Shop("first")
    second = twin_of(first)
    second.name = "second"
    assert first.callback("tea") == "first sold tea"
    assert second.callback("tea") == "second sold tea"


@pytest.mark.parametrize("twin_of", FORMS)
async def test_a_sent_task_keeps_its_options(twin_of: Callable[[Any], Any], tmp_path: Path) -> None:
    due = datetime(2030, 1, 1, tzinfo=UTC)
    async with EffectLog(tmp_path / "runs.db") as log:
        for number, task in enumerate((report, Shop.clean, Shop.count)):
            sent = twin_of(task.with_options(at=due, idempotency_key=f"k{number}", correlation_id="c"))
            handle = await log.enqueue(sent, *(["monday"] if task is report else []))
            assert (await log.enqueue(sent, *(["monday"] if task is report else []))).id == handle.id
            run = await handle.record()
            assert (run.due_at, run.correlation_id) == (due, "c")


def test_what_no_import_finds_is_refused_as_undecorated_functions_are() -> None:
    @durable_task(name="local.to.a.test")
    def local() -> None: ...

    for unreachable in (local, local.with_options(delay=1)):
        with pytest.raises((pickle.PicklingError, AttributeError), match="local"):
            pickle.dumps(unreachable)


def test_a_task_whose_place_another_has_taken_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    task = report.with_options(delay=1)
    monkeypatch.setitem(globals(), "report", Shop.clean)
    with pytest.raises(pickle.PicklingError, match="another object has its place"):
        pickle.dumps(task)
