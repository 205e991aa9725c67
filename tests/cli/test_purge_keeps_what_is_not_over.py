"""Danger: a purge removes a run that still waits, or one whose doubt nobody has answered."""

from __future__ import annotations

from datetime import timedelta

import click
import pytest
import shop_app

from effectlog import RunFailed, RunHeld
from effectlog.cli.options import duration


async def test_only_what_ended_and_left_no_doubt_goes(terminal):
    async with terminal.log() as log:
        async with log.worker():
            ended = await log.enqueue(shop_app.fails, 1)
            in_doubt = await log.enqueue(shop_app.sell, "A-1")
            with pytest.raises(RunFailed):
                await ended.result(timeout=20)
            with pytest.raises(RunHeld):
                await in_doubt.result(timeout=20)
        await in_doubt.cancel()
        pending = await log.enqueue(shop_app.fails, 2)
    assert terminal.inside("purge", "--older-than", "1h").out == "0 runs purged\n"
    assert terminal.inside("purge", "--older-than", "0s", "--state", "succeeded").out == "0 runs purged\n"
    assert terminal.inside("purge", "--older-than", "0s").out == "1 run purged\n"
    left = terminal.inside("runs").out
    assert ended.id not in left
    assert pending.id in left
    assert f"{in_doubt.id}  cancelled" in left
    assert "in doubt" in left


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", timedelta(seconds=90)),
        ("45m", timedelta(minutes=45)),
        ("12h", timedelta(hours=12)),
        ("30d", timedelta(days=30)),
        ("2w", timedelta(weeks=2)),
        ("1.5h", timedelta(minutes=90)),
    ],
)
def test_ages_are_read_as_written(text, expected):
    assert duration(text, "--older-than") == expected


@pytest.mark.parametrize("text", ["", "30", "-1d", "1y", "1d2", "99999999999d", "d"])
def test_an_age_that_is_none_purges_nothing(text):
    with pytest.raises(click.BadParameter):
        duration(text, "--older-than")
