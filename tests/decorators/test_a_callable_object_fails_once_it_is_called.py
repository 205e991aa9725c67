"""Danger: a partial or an object with ``__call__`` decorates, then fails when it is enqueued, run or reloaded."""

from __future__ import annotations

import importlib
import pickle
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from effectlog import ConfigurationError, EffectLog, durable_task, effect
from effectlog.decorators.registry import registered

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Order:
    id: str


def add(order: Order, fee: int) -> str:
    return f"{type(order).__name__} {order.id} + {fee}"


async def add_async(order: Order, fee: int) -> str:
    return add(order, fee)


class Adder:
    def __call__(self, order: Order) -> str:
        return add(order, 2)


class AsyncAdder:
    async def __call__(self, order: Order) -> str:
        return add(order, 2)


CALLABLES: dict[str, Any] = {
    "partial": partial(add, fee=2),
    "async partial": partial(add_async, fee=2),
    "object": Adder(),
    "async object": AsyncAdder(),
    "bound method": Adder().__call__,
}
TASKS = {kind: durable_task(name=f"callable.{kind}")(made) for kind, made in CALLABLES.items()}
EFFECTS = {
    kind: effect(key="add:{order.id}", name=f"callable.{kind}")(made) for kind, made in CALLABLES.items()
}


@durable_task
async def call_effect(kind: str) -> Any:
    answer: Any = EFFECTS[kind](Order("x"))
    return await answer if "async" in kind else answer


@pytest.mark.parametrize("kind", CALLABLES)
async def test_it_runs_as_a_task_and_as_an_effect(kind: str, tmp_path: Path) -> None:
    async with EffectLog(tmp_path / "runs.db") as log:
        for task in (TASKS[kind], TASKS[kind].with_options(correlation_id="c")):
            assert await log.run(task, Order("x")) == "Order x + 2"
        assert await log.run(call_effect, kind) == "Order x + 2"
        waiting = await log.enqueue(TASKS[kind], Order("y"))
        async with log.worker():
            assert await waiting.result() == "Order y + 2"
        with pytest.raises(TypeError, match=r"\w\(\) missing a required argument"):
            await log.enqueue(TASKS[kind])


@pytest.mark.parametrize("decorate", [durable_task(name="c.int"), effect(key="k", name="c.int")])
def test_what_has_no_signature_is_refused_at_decoration(decorate: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"signature of <class 'int'> can't be read"):
        decorate(int)


def test_what_no_import_finds_by_name_is_refused_by_pickle() -> None:
    with pytest.raises(pickle.PicklingError, match=r"once it is decorated"):
        pickle.dumps(TASKS["partial"])


MODULE = """
from functools import partial
from effectlog import durable_task, effect

class Answer:
    def __call__(self):
        return {answer}

task = durable_task(name=__name__ + ".x")(partial(abs, {answer}))
found = effect(key="k", name=__name__ + ".x")(Answer())
"""


def test_its_module_can_be_reloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "module_of_callables.py"
    file.write_text(MODULE.format(answer=1))
    module = importlib.import_module("module_of_callables")
    file.write_text(MODULE.format(answer=2))
    importlib.invalidate_caches()
    importlib.reload(module)
    assert registered()["module_of_callables.x"].function() == 2
    del sys.modules["module_of_callables"]


def test_two_of_one_name_in_one_module_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    again = 'again = durable_task(name=__name__ + ".x")(partial(abs, 3))\n'
    (tmp_path / "module_with_two.py").write_text(MODULE.format(answer=1) + again)
    with pytest.raises(ConfigurationError, match=r"'module_with_two\.x'"):
        importlib.import_module("module_with_two")
