"""Fixtures for pytest, there as soon as effectlog is installed beside it.

``effect_log``: an open log in a temporary file. ``counting_destination``: a factory of simulated
destinations that count requests and effects apart, closed at the end of the test. ``movable_clock``: a clock
that the test moves. ``crash_matrix``: the function of that name.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from effectlog import EffectLog
    from effectlog.testing import CountingDestination, MovableClock


@pytest.fixture
def movable_clock() -> MovableClock:
    """A clock that stands still until ``advance(seconds)``; give it to ``SqliteStore(path, clock=…)``."""
    from effectlog.testing import MovableClock  # noqa: PLC0415 - pytest loads this module in every project

    return MovableClock()


@pytest.fixture
def effect_log(tmp_path: Path) -> Iterator[EffectLog]:
    """An open log in a new file: ``effect_log.sync.run(task, …)``, or awaited in async tests."""
    from effectlog import EffectLog  # noqa: PLC0415 - as above

    log = EffectLog(tmp_path / "effects.db")
    log.sync.open()
    try:
        yield log
    finally:
        log.sync.close()


@pytest.fixture
def counting_destination() -> Iterator[Callable[..., CountingDestination]]:
    """``counting_destination("replay")`` starts one; the kinds are in ``effectlog.testing.destinations``."""
    from effectlog.testing import CountingDestination  # noqa: PLC0415 - as above

    with ExitStack() as stack:

        def start(kind: str = "replay", **options: Any) -> CountingDestination:
            return stack.enter_context(CountingDestination(kind, **options))

        yield start


@pytest.fixture
def crash_matrix() -> Callable[..., Any]:
    """``crash_matrix(task, *args).raise_if_unsafe()``."""
    from effectlog.testing import crash_matrix  # noqa: PLC0415 - as above

    return crash_matrix
