"""A log on a file of its own for each test, and one way to execute a run to its end."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from effectlog import EffectLog


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EffectLog]:
    async with EffectLog(str(tmp_path / "runs.db"), check_store=False) as opened:
        yield opened
