"""Opening a log that is open is refused and leaves the open one as it is."""

from pathlib import Path

import pytest

from effectlog import ConfigurationError, EffectLog, durable_task


@durable_task
def nothing() -> int:
    return 1


async def test_the_second_opening_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    log = EffectLog(tmp_path / "runs.db", check_store=False)
    async with log:
        with pytest.raises(ConfigurationError, match="is open already"):
            async with log:
                pytest.fail("it was opened twice")
        assert await log.run(nothing) == 1
    async with log:  # One after the other is another matter.
        assert await log.run(nothing) == 1


def test_the_same_without_a_loop(tmp_path: Path) -> None:
    log = EffectLog(tmp_path / "runs.db", check_store=False)
    with log:
        with pytest.raises(ConfigurationError, match="is open already"), log:
            pytest.fail("it was opened twice")
        assert log.sync.run(nothing) == 1
