"""A store that breaks a rule loses work or doubles effects: the whole conformance suite, on the real server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.postgres_commands import create, do, new_run

from effectlog.errors import StoreError, StoreRefused
from effectlog.store import commands as c
from effectlog.store.postgres import dry_run
from effectlog.store.probe import prove
from effectlog.store.protocol import RunFilter
from effectlog.testing.conformance import GUARANTEES, check_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from effectlog.store.dry_run import Stage
    from effectlog.store.postgres.store import PostgresStore
    from effectlog.store.rows import StoredRun


@pytest.mark.timeout(180)
async def test_the_store_gives_every_guarantee(open_store: Callable[..., Awaitable[PostgresStore]]) -> None:
    store = await open_store()
    waiting, ended = new_run(due_at=0.0), new_run()
    await store.apply([create(waiting, key="k"), create(ended)])
    await store.apply([c.CancelRun(ended.id)])
    before = await store.find(RunFilter())
    report = await check_store(open_store)
    report.raise_if_failed()
    assert len(report.passed) == len(GUARANTEES)
    assert await store.find(RunFilter()) == before, "the check changed what it did not make"


async def test_the_check_at_open_is_remembered_with_the_schema(store: PostgresStore) -> None:
    assert await store.mark() is None
    await prove(store)
    mark = await store.mark()
    assert mark is not None
    await prove(store)
    assert await store.find(RunFilter()) == []
    created = await do(store, create(new_run()))
    assert created.created


async def test_a_process_that_dies_in_the_check_leaves_nothing_of_it_to_others(
    open_store: Callable[..., Awaitable[PostgresStore]],
) -> None:
    store, other = await open_store(), await open_store()
    seen: list[int] = []

    async def look(stage: Stage) -> None:
        run = new_run()
        await stage.apply([create(run), c.Claim("owner", "probe", 60.0, (c.TaskLimit((run.task,)),), 1)])
        assert await stage.get(run.id) is not None
        seen.append(len(await other.find(RunFilter())))
        raise ZeroDivisionError

    with pytest.raises(StoreError):
        await store.dry_run(look)
    assert seen == [0]
    assert await store.find(RunFilter()) == []


async def test_a_store_that_fails_in_the_rehearsal_is_refused_by_the_guarantee(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forgetful(*_: object) -> list[StoredRun]:
        return []

    monkeypatch.setattr(dry_run, "load_whole", forgetful)
    with pytest.raises(StoreRefused, match="owner and lease are stored"):
        await prove(store)
    assert await store.mark() is None
