from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from effectlog import EffectLog
from support.worker_processes import Field

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@pytest.fixture
def field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Field]:
    """A store for several processes, and what they requested."""
    field = Field(tmp_path)
    monkeypatch.setenv("REQUESTS", str(field.file))
    yield field
    field.end()


@pytest.fixture
async def log(field: Field) -> AsyncIterator[EffectLog]:
    """The same store, opened here."""
    async with EffectLog(field.db) as log:
        yield log
