"""A check that passes a broken store is worse than none, so each missing guarantee is caught by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import broken_stores
from support.dict_store import Database, DictStore

from effectlog.errors import StoreRefused
from effectlog.store.probe import prove
from effectlog.testing.clock import MovableClock
from effectlog.testing.conformance import GUARANTEES, check_store

if TYPE_CHECKING:
    from effectlog.testing.conformance import Report

MISSING = {
    broken_stores.ForgetsOwners: ["owner and lease are stored", "a live lease is respected"],
    broken_stores.SharesRunningRuns: ["a live lease is respected"],
    broken_stores.IgnoresFences: [
        "a stale fence starts no effect",
        "a stale fence ends nothing",
        "a stale fence creates no run",
    ],
    broken_stores.ReusesFences: ["each claim has a higher fence"],
    broken_stores.RenewsLapsedLeases: ["an expired lease is not renewed"],
    broken_stores.NeverLapses: ["an expired lease starts no effect"],
    broken_stores.AcceptsUnseen: [
        "a request is not started on a row that its caller has not seen",
        "a request is not started over a decision that its caller has not seen",
    ],
    broken_stores.OverwritesResults: ["a completed result never changes"],
    broken_stores.DropsLateOutcomes: ["a late outcome settles the effect where nobody executes it"],
    broken_stores.KeepsTheFirstHorizon: [
        "a request that did nothing may be made again, and the horizon begins anew"
    ],
    broken_stores.EndsOverDoubt: ["a run does not end over an effect that waits for a decision"],
    broken_stores.SettlesUnderTheOwner: ["an effect is not settled while a live owner executes it"],
    broken_stores.ForgetsKeys: [
        "a known key returns the first run and its fingerprints, and creates nothing"
    ],
    broken_stores.ForgetsDeadLetters: ["the run for a dead letter is created with it, and once"],
    broken_stores.PurgesDoubt: ["a run with an effect in doubt is never purged"],
    broken_stores.AppliesOneByOne: ["a batch is applied whole or not at all"],
    broken_stores.IgnoresLimits: [
        "a task's concurrency holds over all claimers and all its names",
        "one run a concurrency key is executed at a time, whatever its task is called",
        "suspects are claimed one at a time, and only where they are asked for",
    ],
    broken_stores.ClaimsEarly: [
        "a run is not claimed before it is due",
        "a run that is not due is not claimed by its id either",
    ],
    broken_stores.StopsAtStrangers: ["runs of other tasks are neither claimed nor in the way"],
}

NOT_OWNED = {
    broken_stores.ForgetsOwners: "owner and lease are stored",
    broken_stores.SharesRunningRuns: "a live lease is respected",
    broken_stores.IgnoresFences: "a stale fence is refused",
    broken_stores.ReusesFences: "a stale fence is refused",
}


async def _check(kind: type[DictStore], only: list[str] | None = None) -> Report:
    clock, database = MovableClock(), [Database()]

    async def open_store() -> DictStore:
        return kind(database, clock)

    report = await check_store(open_store, advance=clock.advance, only=only)
    assert only is not None or not database[0].runs, "the check left runs behind"
    return report


async def test_a_store_of_somebody_else_that_keeps_the_rules_passes() -> None:
    report = await _check(DictStore)
    report.raise_if_failed()
    assert len(report.passed) == len(GUARANTEES)
    await prove(DictStore([Database()]))


@pytest.mark.parametrize("kind", MISSING, ids=lambda kind: kind.__name__)
async def test_the_check_names_what_is_missing(kind: type[DictStore]) -> None:
    report = await _check(kind, MISSING[kind])
    assert [failure.name for failure in report.failed] == sorted(MISSING[kind], key=_place)
    assert all(failure.reason for failure in report.failed)


def _place(name: str) -> int:
    return [guarantee.name for guarantee in GUARANTEES].index(name)


@pytest.mark.parametrize("kind", NOT_OWNED, ids=lambda kind: kind.__name__)
async def test_a_store_that_does_not_enforce_ownership_is_refused_at_open(kind: type[DictStore]) -> None:
    with pytest.raises(StoreRefused) as refused:
        await prove(kind([Database()]))
    assert NOT_OWNED[kind] in str(refused.value)
    assert "check_store=False" in str(refused.value)
