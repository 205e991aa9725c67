"""Danger: a held charge waits for ever because nobody can see what is known, or because the shown commands fail."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime

import pytest
import shop_app

from effectlog import RunHeld


@pytest.fixture
async def held(terminal):
    async with terminal.log() as log, log.worker():
        run = await log.enqueue(shop_app.sell, "A 1; rm")
        with pytest.raises(RunHeld):
            await run.result(timeout=20)
    return run.id


def suggested(shown: str) -> list[list[str]]:
    """The commands that ``show`` offers, as a shell would read them."""
    lines = [line.strip() for line in shown.splitlines() if line.startswith("    effectlog ")]
    return [shlex.split(line)[1:] for line in lines]


def test_everything_known_is_shown(terminal, held):
    shown = terminal.inside("show", held).out
    for expected in (
        "requests       1 request, and no outcome is known",
        f"first request  {datetime.now(UTC):%Y-%m-%d}",
        "contract       stripe/v1: a repeat gets the first answer again",
        "last error     ConnectionError: no answer about A 1; rm",
        "until ",
    ):
        assert expected in shown
    assert re.search(r"operation id +[0-9a-f-]{36}\n", shown)
    assert "\x1b" not in shown, "stored text must not steer the terminal"
    commands = suggested(shown)
    assert [command[3:-2] for command in commands] == [
        ["--applied", "JSON", "--if-requests", "1"],
        ["--not-applied", "--if-requests", "1"],
        ["--not-applied", "--new-operation", "--if-requests", "1"],
    ]


async def test_the_shown_command_settles_it_and_the_value_gets_its_declared_type(terminal, held):
    command = suggested(terminal.inside("show", held).out)[0]
    command[command.index("JSON")] = '"19.90"'
    command[command.index("YOU")] = "Ada"
    done = terminal(*command, "--evidence", "seen in the\ndashboard")
    assert done.code == 0, done.err
    assert "pending" in done.out
    loser = terminal.inside(*command)
    assert loser.code == 1
    assert "resolved by Ada" in loser.err
    with terminal.worker():
        async with terminal.log() as log:
            assert await (await log.get_run(held)).result(timeout=20) == "Decimal('19.90')"
    shown = terminal.inside("show", held).out
    assert "decided by  Ada" in shown
    assert "evidence    seen in the" in shown


async def test_a_value_that_can_not_be_converted_here_is_converted_where_the_code_is(terminal, held):
    (terminal.folder / "shop_app.py").rename(terminal.folder / "elsewhere.py")
    done = terminal("resolve", held, "charge:A 1; rm", "--applied", "5", "--by", "Ada")
    assert done.code == 0, done.err
    (terminal.folder / "elsewhere.py").rename(terminal.folder / "shop_app.py")
    with terminal.worker():
        async with terminal.log() as log:
            assert await (await log.get_run(held)).result(timeout=20) == "Decimal('5')"


def test_a_value_of_another_type_is_refused_while_somebody_can_still_correct_it(terminal, held):
    decision = ("--applied", '"plenty"', "--by", "Ada", "--module", "shop_app")
    done = terminal("resolve", held, "charge:A 1; rm", *decision)
    assert done.code == 1
    assert "does not fit the declared Decimal" in done.err
    assert terminal.inside("show", held, "--json").json["effects"][0]["in_doubt"] is True


def test_an_unknown_effect_is_refused_with_the_keys_that_exist(terminal, held):
    done = terminal.inside("resolve", held, "charge:B", "--not-applied", "--by", "Ada")
    assert done.code == 1
    assert "'charge:A 1; rm'" in done.err
