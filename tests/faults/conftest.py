from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.fault_processes import Crew

from effectlog.testing import CountingDestination

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def destination() -> Iterator[CountingDestination]:
    """Deduplicates by key and doesn't look at the rest, so that each request may say who made it."""
    with CountingDestination("drop", process=True) as running:
        yield running


@pytest.fixture
def crew(tmp_path: Path, destination: CountingDestination) -> Iterator[Crew]:
    crew = Crew(tmp_path / "runs.db", destination.url)
    yield crew
    crew.close()
