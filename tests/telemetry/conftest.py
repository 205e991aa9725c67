from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.telemetry_seen import Seen

from effectlog import telemetry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def seen() -> Iterator[Seen]:
    """Telemetry goes to providers of this test's own."""
    sdk = Seen()
    telemetry.configure(tracer_provider=sdk.tracer_provider, meter_provider=sdk.meter_provider)
    yield sdk
    telemetry.configure()


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "log.db")
