"""A clock that is set, a machine that sleeps or restarts: a live lease must not be stolen, a dead one not kept."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from effectlog import clock as clock_module
from effectlog.store import commands as c
from effectlog.store.rows import NewRun
from effectlog.store.sqlite.store import SqliteStore
from effectlog.testing.clock import MovableClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LEASE = 30.0
FENCE = c.Fence("run", 1)


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
async def store(clock: MovableClock) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(":memory:", clock=clock)
    await store.open()
    await store.apply([c.CreateRuns((NewRun("run", "task", b"[]"),), "task")])
    await store.apply([c.Claim("a", "worker", LEASE, (), 1, run_id="run")])
    yield store
    await store.close()


async def lapsed(store: SqliteStore, *dead: str) -> list[str]:
    return [row.id for row in await store.lapsed(frozenset(dead))]


@pytest.mark.parametrize("step", [-7200.0, 7200.0])
async def test_setting_the_wall_clock_neither_steals_nor_prolongs_a_lease(
    store: SqliteStore, clock: MovableClock, step: float
) -> None:
    clock.step_wall(step)
    assert await lapsed(store) == []
    (renewed,) = await store.apply([c.Renew("a", LEASE, (FENCE,))])
    assert renewed == c.Renewed(frozenset(), frozenset())
    clock.advance(LEASE)
    assert await lapsed(store) == ["run"]


async def test_a_machine_asleep_does_not_lose_its_leases(store: SqliteStore, clock: MovableClock) -> None:
    clock.sleep(8 * 3600.0)
    assert await lapsed(store) == []
    clock.advance(LEASE)
    assert await lapsed(store) == ["run"]


async def test_after_a_restart_only_a_known_death_ends_an_old_lease(
    store: SqliteStore, clock: MovableClock
) -> None:
    before = await store.owners()
    clock.reboot()
    clock.advance(10 * LEASE)
    assert await lapsed(store) == [], "a lease was compared with another machine's clock"
    assert before == {"a": "movable/1"}, "nobody could tell that the owner's clock no longer runs"
    assert await lapsed(store, "a") == ["run"]


async def test_a_lease_ends_exactly_when_it_says(store: SqliteStore, clock: MovableClock) -> None:
    clock.advance(LEASE - 0.001)
    assert await lapsed(store) == []
    clock.advance(0.001)
    assert await lapsed(store) == ["run"]


def test_a_machine_that_cannot_name_its_boot_has_one_clock_for_all_its_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A name guessed from the wall clock would change when that is set, and a live owner would look long dead.
    monkeypatch.setattr(clock_module, "_boot", lambda: None)
    clock = clock_module.SystemClock()
    assert clock.identity == clock_module.WALL_CLOCK
    assert abs(clock.monotonic() - time.time()) < 1.0
    monkeypatch.setattr(time, "time", lambda: 1_800_000_000.0)
    assert (clock.identity, clock.monotonic()) == (clock_module.WALL_CLOCK, 1_800_000_000.0)


def test_this_machine_names_its_boot() -> None:
    clock = clock_module.SystemClock()
    assert clock.identity != clock_module.WALL_CLOCK
    assert abs(clock.monotonic() - time.monotonic()) < 1.0
