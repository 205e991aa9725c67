"""A store that breaks a rule loses work or doubles effects, so each one gives every guarantee."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.checked_stores import EMBEDDED, Checked

from effectlog.store import commands as c
from effectlog.store.protocol import RunFilter
from effectlog.store.rows import NewRun
from effectlog.testing.conformance import GUARANTEES, check_store

if TYPE_CHECKING:
    from pathlib import Path

    from effectlog.store.rows import StoredRun


@pytest.mark.parametrize("name", EMBEDDED)
async def test_the_store_gives_every_guarantee(name: str, tmp_path: Path) -> None:
    checked = EMBEDDED[name](tmp_path)
    before = await _put_to_use(checked)
    report = await check_store(checked.open_store, advance=checked.advance, shared=checked.shared)
    report.raise_if_failed()
    assert len(report.passed) + len(report.skipped) == len(GUARANTEES)
    assert not (report.skipped and checked.shared)
    assert not checked.shared or await _all_of(checked) == before, "the check changed what it did not make"


async def _put_to_use(checked: Checked) -> list[StoredRun]:
    """Runs that the check must neither claim, change nor purge."""
    store = await checked.open_store()
    waiting, ended, running = (
        NewRun(name, "task", b"[]", due_at=0.0) for name in ("waiting", "ended", "running")
    )
    await store.apply([c.CreateRuns((waiting, ended, running), "task", "k"), c.CancelRun("none")])
    await store.apply([c.CancelRun("ended")])
    await store.apply([c.Claim("owner", "worker", 60.0, (), 1, run_id="running")])
    await store.close()
    return await _all_of(checked)


async def _all_of(checked: Checked) -> list[StoredRun | None]:
    store = await checked.open_store()
    found = [await store.get(listed.row.id) for listed in await store.find(RunFilter(limit=1000))]
    assert await store.workers() == []
    await store.close()
    return found


async def test_a_report_names_what_is_missing() -> None:
    from effectlog.testing.conformance import Failure, Report, StoreNotConformant

    report = Report(
        "my store", passed=["one"], failed=[Failure("a stale fence is refused", "it was accepted")]
    )
    assert not report.ok
    with pytest.raises(StoreNotConformant, match=r"a stale fence is refused\n.*it was accepted"):
        report.raise_if_failed()
    Report("my store", passed=["one"]).raise_if_failed()


def test_guarantees_have_names_of_their_own() -> None:
    names = [guarantee.name for guarantee in GUARANTEES]
    assert len(names) == len(set(names)) > 140
