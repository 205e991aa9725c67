"""The engine commits on the store's own thread where there is one, and on its loop elsewhere: both are tried."""

from pathlib import Path

import pytest
from support.failing_store import FailingAwaited, FailingStore


@pytest.fixture(params=[FailingStore, FailingAwaited], ids=["thread", "loop"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FailingStore:
    made: FailingStore = request.param(str(tmp_path / "runs.db"))
    return made
