"""Danger: a reload, a notebook or another test module gives one stored name to two functions, or loses the right one."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import pytest

from effectlog import ConfigurationError, EffectLog, durable_task
from effectlog.registry import registered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MODULE = """
from effectlog import durable_task, effect

@effect(key="said")
def say():
    return {answer!r}

@durable_task{options}
def {name}():
    return say()
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Write a module and import or reload it."""
    monkeypatch.syspath_prepend(tmp_path)
    made: set[str] = set()

    def make(module: str, *, name: str = "work", answer: object = 1, options: str = "") -> Any:
        made.add(module)
        text = MODULE.format(name=name, answer=answer, options=options)
        (tmp_path / f"{module}.py").write_text(text)
        importlib.invalidate_caches()
        known = sys.modules.get(module)
        if known is None:
            return importlib.import_module(module)
        return importlib.reload(known)

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield make
    for module in made:
        sys.modules.pop(module, None)


async def test_a_reloaded_module_is_what_workers_execute(write: Callable[..., Any], tmp_path: Path) -> None:
    first = write("registry_reloaded", answer="old")
    async with EffectLog(tmp_path / "runs.db") as log:
        waiting = await log.enqueue(first.work)
        second = write("registry_reloaded", answer="new")
        async with log.worker():
            assert await waiting.result(10) == "new"
            assert await (await log.enqueue(second.work)).result(10) == "new"
            # What was imported before the reload is still a task, of the same name.
            assert await (await log.enqueue(first.work)).result(10) == "new"


def test_another_function_of_the_same_name_is_refused_with_both_files(write: Callable[..., Any]) -> None:
    one = write("registry_one", options="(name='registry.shared')")
    with pytest.raises(ConfigurationError) as refused:
        write("registry_two", options="(name='registry.shared')")
    for module in ("registry_one.py", "registry_two.py"):
        assert module in str(refused.value)
    assert "name=" in str(refused.value), "nobody is told what to do"
    assert registered()["registry.shared"] is one.work.spec, "the refused function took the name over"


def test_an_alias_that_is_another_tasks_name_leaves_that_task_alone(write: Callable[..., Any]) -> None:
    one = write("registry_three", options="(name='registry.kept')")
    write("registry_four", options="(name='registry.other', aliases=['registry.kept'])")
    assert registered()["registry.kept"] is one.work.spec


def test_two_functions_of_one_module_are_told_apart() -> None:
    @durable_task(name="registry.twice")
    def first() -> None: ...

    with pytest.raises(ConfigurationError, match=r"first .*second .*give one of them another name="):

        @durable_task(name="registry.twice")
        def second() -> None: ...


def test_a_notebook_may_run_a_cell_again_and_change_the_function() -> None:
    # A kernel compiles each run of a cell under a file name of its own, into one namespace.
    namespace: dict[str, Any] = {"__name__": "registry_notebook"}
    for execution in (1, 2, 3):
        source = f"from effectlog import durable_task\n@durable_task\ndef cell():\n    return {execution}\n"
        exec(compile(source, f"/tmp/ipykernel_4711/{execution}.py", "exec"), namespace)
        assert namespace["cell"]() == execution
        assert registered()["registry_notebook.cell"].function() == execution


def test_names_of_local_functions_are_theirs_alone() -> None:
    def declared(answer: int) -> Any:
        @durable_task
        def local() -> int:
            return answer

        return local

    one, again = declared(1), declared(2)
    assert one.spec.name == again.spec.name
    assert registered()[one.spec.name].function() == 2, "declared again in a fixture, the newest counts"
