"""Danger: an argument that nobody thought of gives a traceback, a hang, or an exit status that a script misreads."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import APPS

from effectlog import EffectLog
from effectlog.cli.main import command_line

if TYPE_CHECKING:
    from collections.abc import Iterator

texts = st.text(max_size=12) | st.sampled_from(
    [
        "",
        " ",
        "\x00",
        "\ud800",
        "--",
        "-",
        "--help",
        "é\u202e\x1b[31m",
        "%s{}{0}",
        "x" * 3000,
        "0",
        "-1",
        "null",
    ]
)
json_texts = (
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    ).map(json.dumps)
    | st.sampled_from(["[1]", '{"a": 1}', "[", "[" * 5000, '"\\ud800"', "[1e999]", "1" * 5000, "NaN"])
    | texts
)
addresses = st.sampled_from(
    [
        "fuzz_app:plain",
        "fuzz_app:listens",
        "fuzz_app:not_a_task",
        "fuzz_app:",
        ":plain",
        "fuzz_app",
        "no.such:x",
    ]
) | texts.map(lambda text: f"fuzz_app:{text}")
runs = st.sampled_from(["held", "a-run", "../x", "RUN"]) | texts
stores = st.sampled_from(
    ["STORE"] * 6
    + [":memory:", "", ".", "no/such/folder/x.db", "text.txt", "sqlite://", "sqlite:///STORE", "mysql://h/d"]
    + ["postgresql://nobody@127.0.0.1:1/none?connect_timeout=1", "file:///STORE", "x\x00y", "sqlite:///%00"]
)
states = st.sampled_from(["pending", "failed", "held", "succeeded", "nonsense", ""])
durations = st.sampled_from(["1s", "0d", "30d", "1e9d", "99999999999999w", "-1s", "s", "nan", "1.5h"]) | texts
numbers = st.integers(-5, 10**20).map(str) | texts


def option(name: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    return (
        st.just([]) | values.map(lambda value: [f"{name}={value}"]) | values.map(lambda value: [name, value])
    )


def flag(name: str) -> st.SearchStrategy[list[str]]:
    return st.just([]) | st.just([name])


def line(*parts: st.SearchStrategy[str] | st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    return st.tuples(*parts).map(
        lambda found: [word for part in found for word in ([part] if isinstance(part, str) else part)]
    )


chosen = line(option("--state", states), option("--task", texts), flag("--force"), st.lists(runs, max_size=3))
LINES = {
    "enqueue": line(addresses, json_texts, option("--key", texts), flag("--json")),
    "emit": line(st.sampled_from(["fuzz.event", "none"]) | texts, json_texts, option("--key", texts)),
    "runs": line(
        option("--state", states), option("--limit", numbers), option("--before", runs), flag("--json")
    ),
    "show": line(runs, flag("--json")),
    "resolve": line(
        runs,
        texts,
        option("--applied", json_texts),
        flag("--not-applied"),
        flag("--new-operation"),
        option("--by", texts),
        option("--evidence", texts),
    ),
    "retry": chosen,
    "cancel": chosen,
    "purge": line(option("--older-than", durations), option("--state", states)),
    "migrate": line(st.lists(texts, max_size=1)),
    "doctor": line(flag("--json")),
    "nonsense": line(st.lists(texts, max_size=2)),
}
commands = st.sampled_from(sorted(LINES)).flatmap(
    lambda name: LINES[name].map(lambda arguments: [name, *arguments])
)


@pytest.fixture(scope="module", autouse=True)
def folder() -> Iterator[Path]:
    """The current folder of all the commands, with a store in it that has a run in each of a few states."""
    before, path = Path.cwd(), sys.path[:]
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        sys.path.insert(0, str(APPS))
        Path("text.txt").write_text("no database")
        asyncio.run(fill())
        yield Path(name)
        os.chdir(before)
        sys.path[:] = path


async def fill() -> None:
    import fuzz_app

    async with EffectLog("STORE") as log:
        for number in range(3):
            await log.enqueue(fuzz_app.plain, number)
        await (await log.enqueue(fuzz_app.plain, 1)).cancel()


def check(command: list[str], store: str) -> None:
    done = CliRunner().invoke(command_line, [*command, f"--store={store}"], prog_name="effectlog")
    assert done.exception is None or isinstance(done.exception, SystemExit), (command, store, done.exception)
    assert done.exit_code in (0, 1, 2), (command, store)
    assert "Traceback" not in done.output
    if done.exit_code == 1:
        assert done.stderr.startswith("effectlog: "), (command, store, done.stderr)
        assert done.stderr.count("\n") == 1, (command, store, done.stderr)
        assert done.stderr.removesuffix("\n").isprintable(), "a terminal's cursor can be moved by it"


FUZZ = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@settings(FUZZ, max_examples=120)
@given(command=commands, store=stores)
def test_no_argument_gives_a_traceback(command: list[str], store: str) -> None:
    check(command, store)


@pytest.mark.long
@pytest.mark.timeout(900)
@settings(FUZZ, max_examples=5000)
@given(command=commands, store=stores)
def test_thousands_of_arguments_give_no_traceback(command: list[str], store: str) -> None:
    check(command, store)
