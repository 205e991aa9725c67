"""Danger: a reload, a notebook or another test module gives one stored name to two functions, or loses the right one."""

from __future__ import annotations

import gc
import importlib
import os
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from effectlog import ConfigurationError, EffectLog, durable_task, effect
from effectlog.decorators.registry import registered

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


def local_tasks() -> Any:
    def declared(answer: int) -> Any:
        @durable_task
        def local() -> int:
            return answer

        return local

    return declared


def test_two_functions_of_one_def_are_refused_while_both_are_in_use() -> None:
    """``enqueue(one)`` would execute the other: a worker finds a task by its stored name."""
    declared = local_tasks()
    one = declared(1)
    with pytest.raises(ConfigurationError, match="both in use"):
        declared(2)
    assert registered()[one.spec.name].function() == 1
    key = one.with_options(idempotency_key="k")
    name = one.spec.name
    del one
    with pytest.raises(ConfigurationError, match="both in use"):
        declared(3)
    del key
    again = declared(4)
    assert registered()[name].function() == again() == 4, "nobody can mean the first one any more"


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that forgets functools.wraps."""

    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


class Handler:
    def __init__(self, answer: int) -> None:
        self.answer = answer

    def __call__(self) -> int:
        return self.answer


def pay() -> str:
    return "pay"


def refund() -> str:
    return "refund"


@pytest.mark.parametrize(
    "make",
    [
        lambda: (logged(pay), logged(refund)),
        lambda: (lambda: 1, lambda: 2),
        lambda: [lambda n=n: n for n in (1, 2)],
        lambda: (partial(Handler(1)), partial(Handler(2))),
        lambda: [type("Local", (), {"m": staticmethod(logged(pay))}).m for _ in (1, 2)],
    ],
    ids=["no wraps", "lambdas", "a loop", "partials", "classes"],
)
@pytest.mark.parametrize("decorate", [durable_task, effect(key="k")], ids=["task", "effect"])
def test_functions_that_a_name_can_not_tell_apart_are_refused(
    make: Callable[[], Any], decorate: Callable[..., Any]
) -> None:
    first, second = make()
    kept = decorate(first)
    with pytest.raises(ConfigurationError, match=r"both in use.*name=|give one of them another name="):
        decorate(second)
    assert kept is not None


def test_a_function_that_refers_to_itself_can_be_declared_again() -> None:
    """It is held by nothing but its own circle, which only the garbage collector ends."""

    def declare() -> Any:
        @durable_task(name="registry.refers to itself")
        def again(n: int) -> int:
            return 0 if n == 0 else again(n - 1)

        return again(2)

    assert declare() == declare() == 0


def test_a_script_that_is_also_imported_is_one_file(tmp_path: Path) -> None:
    """However it was started, and whatever links lead to it."""
    release = tmp_path / "releases" / "1"
    release.mkdir(parents=True)
    (release / "app.py").write_text(
        "from effectlog import durable_task, effect\n"
        "@effect(key='k')\ndef said(): ...\n"
        "@durable_task\ndef task(): ...\n"
        "if __name__ == '__main__':\n"
        "    import app\n"
        "    print(app.task.spec.name, task.spec.name)\n"
    )
    (tmp_path / "current").symlink_to(release)
    (release / "sub").mkdir()
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "current")}
    for folder, script in ((release / "sub", "../app.py"), (tmp_path, "current/app.py"), (release, "app.py")):
        done = subprocess.run(
            [sys.executable, script], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.stdout == "app.task app.task\n", done.stderr


def test_a_fixture_may_make_its_effects_and_tasks_for_each_test() -> None:
    def make(answer: int) -> Callable[[], int]:
        class Sender:
            @effect(key="send")
            def send(self) -> int:
                return answer

        @effect(key="say")
        def say() -> int:
            return Sender().send()

        @durable_task
        def fixed() -> int:
            return say()

        return fixed

    for answer in (1, 2):
        made = make(answer)
        assert made() == answer
        del made
    kept = make(3)
    with pytest.raises(ConfigurationError, match="both in use"):
        make(4)
    assert kept() == 3


def test_a_child_is_not_replaced_under_the_parent_that_a_worker_still_executes() -> None:
    """The parent that only the registry holds would enqueue its child by a name that finds another function."""

    def make(name: str) -> None:
        @durable_task
        def child() -> None: ...

        @durable_task(name=name)
        def parent() -> None:
            child()

    make("registry.parent.one")
    with pytest.raises(ConfigurationError, match="both in use"):
        make("registry.parent.two")


def test_a_name_is_found_while_its_function_is_declared_again() -> None:
    """Other threads look names up at any time, and the collector's callbacks run in the midst of it."""

    def make() -> None:
        @durable_task(name="registry.again")
        def again() -> object:
            return again

    make()
    found: list[bool] = []

    def look(_phase: str, _info: object) -> None:
        found.append("registry.again" in registered())

    gc.callbacks.append(look)
    try:
        make()
    finally:
        gc.callbacks.remove(look)
    assert found
    assert all(found)


def test_one_alias_belongs_to_one_task() -> None:
    @durable_task(name="registry.alias.one", aliases="registry.alias")
    def one() -> None: ...

    with pytest.raises(
        ConfigurationError, match=r"'registry\.alias\.one' .* and 'registry\.alias\.two' .* alias"
    ):

        @durable_task(name="registry.alias.two", aliases=("registry.alias", "registry.more"))
        def two() -> None: ...

    assert registered()["registry.alias"].name == "registry.alias.one"

    @durable_task(name="registry.alias.three", aliases=("registry.alias", "registry.alias.one"))
    def renamed() -> None: ...

    assert registered()["registry.alias"].name == "registry.alias.three"
